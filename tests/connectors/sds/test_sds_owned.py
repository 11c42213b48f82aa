"""What belongs to a key, at the edge: hosted participants, their sender ids, and the profiles of channels."""

from __future__ import annotations

from culm_models.sds.frames.messages import EventFrame, Fetch, Fetched, Join, Refused, SdsMessage, Send
from culm_models.sds.wire.messages import HistoryEntry
from tests.support.connectors.quic import identity
from tests.support.hostile.sds import another_profile_first, forged_messages, take_over
from tests.support.process.waiting import until
from tests.support.sds.edge import MemoryBackbone, event, message, remote, serving

BEN, STRANGER = 1, 2


def key_of(number: int) -> bytes:
    return identity(number).peer_id


async def test_a_hosted_participant_cannot_be_taken_over_by_another_key() -> None:
    backbone = MemoryBackbone()
    backbone.own("room", "ben", key_of(BEN))
    backbone.tell("room", event(1, "acknowledged", "ben"))
    async with serving(backbone) as (_, address), remote(address, STRANGER) as stranger:
        await stranger.say(*take_over("room", "ben"))
        refused = await stranger.hears(Refused)
        assert refused[0].code == "sds.join.owned"
        assert not stranger.all(EventFrame)
        assert not backbone.commands


async def test_nothing_private_is_passed_on_before_it_is_known_whose_an_id_is() -> None:
    """Two keys join as one id at two edges at once: the job's order decides."""
    backbone = MemoryBackbone(decides=False)
    backbone.tell("room", event(1, "sent", "ben"))
    async with (
        serving(backbone) as (_, west),
        serving(backbone, connector=b"edge-two") as (_, east),
        remote(west, BEN) as ben,
        remote(east, STRANGER) as stranger,
    ):
        await ben.joins("room", "ben", hosted=True, cursor=b"")
        await stranger.joins("room", "ben", hosted=True, cursor=b"")
        await until(lambda: len(backbone.commands) == 2)
        assert [command.peer_id for _, command in backbone.commands] == [key_of(BEN), key_of(STRANGER)]
        backbone.own("room", "ben", key_of(BEN))
        await ben.hears(EventFrame)
        assert (await stranger.hears(Refused))[0].code == "sds.join.owned"
        assert not stranger.all(EventFrame)


async def test_a_hosted_id_that_an_operator_gives_away_is_its_former_keys_no_more() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (_, address), remote(address, BEN) as ben:
        await ben.joins("room", "ben", hosted=True)
        backbone.own("room", "ben", key_of(STRANGER))
        assert (await ben.hears(Refused))[0].code == "sds.join.owned"
        backbone.tell("room", event(1, "sent", "ben"))
        await ben.say(Send("room", bytes(16), b"still me?"))
        assert (await ben.hears(Refused, 2))[1].code == "sds.join.missing"
        assert not ben.all(EventFrame)


async def test_a_join_that_the_job_refuses_is_told_to_who_asked_alone() -> None:
    backbone = MemoryBackbone()
    backbone.own("room", "", key_of(STRANGER), role="channel")
    async with (
        serving(backbone) as (_, address),
        remote(address, BEN) as ben,
        remote(address, STRANGER) as stranger,
    ):
        await ben.joins("room", "ben", hosted=True)
        await stranger.joins("room", "guest", hosted=True, settings={"bloom_capacity": 10**6})
        await until(lambda: len(backbone.commands) == 2)
        details = {
            "token": backbone.commands[1][1].token,
            "command": "join",
            "code": "sds.bloom.size",
            "reason": "too large",
        }
        backbone.tell("room", event(1, "rejected", "guest", details=details))
        assert (await stranger.hears(Refused))[0].code == "sds.bloom.size"
        backbone.tell("room", event(2))
        assert [frame.number for frame in await ben.hears(EventFrame)] == [2]


async def test_messages_under_a_hosted_id_are_relayed_only_as_repeats() -> None:
    backbone = MemoryBackbone()
    backbone.own("room", "ben", key_of(BEN))
    made = message("ben", "m1")
    backbone.keep("room", made)
    async with (
        serving(backbone) as (_, address),
        remote(address, STRANGER) as stranger,
        remote(address, 3) as other,
    ):
        await stranger.joins("room", "stranger")
        await other.joins("room", "other")
        for frame in forged_messages("room", "ben", 2, lamport=1):
            await stranger.say(frame)
        await stranger.say(SdsMessage("room", made))
        refused = await stranger.hears(Refused, 6)
        assert {rejected.code for rejected in refused} == {"sds.sender.owned"}
        assert [frame.wire for frame in await other.hears(SdsMessage, 2)][1] == made
        assert len(backbone.said) == 2


async def test_answers_of_peers_do_not_speak_for_hosted_participants() -> None:
    backbone = MemoryBackbone()
    backbone.own("room", "ben", key_of(BEN))
    async with (
        serving(backbone, ask_timeout_s=1) as (driver, address),
        remote(address, STRANGER) as stranger,
        remote(address, 3) as other,
    ):
        await stranger.joins("room", "stranger")
        await other.joins("room", "other")
        await other.say(Fetch("room", 1, (HistoryEntry("m1"), HistoryEntry("m2"))))
        (asked,) = await stranger.hears(Fetch)
        wires = ((message("ben", "m1"), None), (message("ann", "m2"), None))
        await stranger.say(Fetched("room", asked.request, wires))
        (fetched,) = await other.hears(Fetched)
        assert [wire for wire, _ in fetched.wires] == [message("ann", "m2")]
        assert driver.metrics.rejects["sds.sender.owned"] == 1


async def test_one_id_is_not_full_and_hosted_at_once() -> None:
    backbone = MemoryBackbone(decides=False)
    async with (
        serving(backbone) as (_, address),
        remote(address, BEN) as full,
        remote(address, BEN) as hosted,
    ):
        await full.joins("room", "ben")
        await hosted.say(Join("room", "spec", "ben", hosted=True))
        assert (await hosted.hears(Refused))[0].code == "sds.join.full"
        await hosted.joins("room", "cleo", hosted=True)
        backbone.own("room", "cleo", key_of(BEN))
        await full.say(Join("elsewhere", "spec", "cleo"))
        backbone.own("elsewhere", "cleo", key_of(BEN))
        assert (await full.hears(Refused))[0].code == "sds.join.hosted"


async def test_the_first_member_decides_the_profile_of_a_channel_and_others_are_told() -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone) as (_, address),
        remote(address, BEN) as ann,
        remote(address, STRANGER) as stranger,
    ):
        await ann.joins("room", "ann")
        await until(lambda: backbone.commands)
        assert [(command.kind, command.peer_id) for _, command in backbone.commands] == [
            ("open", key_of(BEN))
        ]
        await stranger.say(*another_profile_first("room", lamport=1))
        refused = await stranger.hears(Refused)
        assert refused[0].code == "sds.join.profile"
        assert not backbone.said


async def test_the_settings_name_the_profiles_of_channels() -> None:
    backbone = MemoryBackbone()
    profiles = {"room": "spec", "waku.*": "js"}
    async with serving(backbone, profiles=profiles) as (_, address), remote(address, STRANGER) as stranger:
        await stranger.say(*another_profile_first("room", lamport=1))
        assert (await stranger.hears(Refused))[0].code == "sds.join.profile"
        await stranger.joins("waku.1", "stranger", profile="js")
