"""The SDS driver over real QUIC: who hears what, live and from the past, and what Kafka gets."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from culm_connectors.sds.settings import SdsEdgeSettings
from culm_connectors.transport import CloseCode
from culm_models.sds.frames.codec import DEFAULT_MAX_FRAME_BYTES
from culm_models.sds.frames.messages import (
    Accepted,
    AskHead,
    EventFrame,
    Fetch,
    Fetched,
    Head,
    Joined,
    Leave,
    Mark,
    Refused,
    SdsMessage,
    Send,
)
from culm_models.sds.wire.codec import decode
from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.sds.records import SdsFetchRecord
from tests.support.connectors.quic import identity
from tests.support.process.waiting import until
from tests.support.sds.edge import MemoryBackbone, event, message, remote, serving

TOKEN = bytes(range(16))


async def test_a_message_reaches_the_other_full_participants_and_kafka_but_not_its_speaker() -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone) as (_, address),
        remote(address, 1) as a,
        remote(address, 2) as b,
        remote(address, 3) as c,
    ):
        await a.joins("room", "a")
        await b.joins("room", "b")
        await c.joins("elsewhere", "c")
        wire = message("a", "m1")
        await a.say(SdsMessage("room", wire))
        assert (await b.hears(SdsMessage)) == [SdsMessage("room", wire)]
        await until(lambda: backbone.said)
        ((channel_id, record),) = backbone.said
        assert (channel_id, record.wire, record.peer_id) == ("room", wire, identity(1).peer_id)
        assert record.connector == b"edge-one"
        assert not a.all(SdsMessage) and not c.all(SdsMessage)


async def test_the_live_path_does_not_wait_for_kafka() -> None:
    backbone = MemoryBackbone()
    backbone.gate.clear()
    async with serving(backbone) as (_, address), remote(address, 1) as a, remote(address, 2) as b:
        await a.joins("room", "a")
        await b.joins("room", "b")
        await a.say(SdsMessage("room", message("a", "m1")))
        await b.hears(SdsMessage)
        assert not backbone.said
        backbone.gate.set()
        await until(lambda: backbone.said)


async def test_profiles_under_the_same_channel_id_do_not_mix_before_the_job_has_decided() -> None:
    backbone = MemoryBackbone(decides=False)
    async with serving(backbone) as (driver, address), remote(address, 1) as a, remote(address, 2) as b:
        await a.joins("room", "a", profile="spec")
        await b.joins("room", "b", profile="js")
        await a.say(SdsMessage("room", message("a", "m1")))
        await until(lambda: backbone.said)
        driver.channels.received("room", "js", message("x", "m2"))
        await b.hears(SdsMessage)
        assert [decode(frame.wire, "js").message_id for frame in b.all(SdsMessage)] == ["m2"]
        assert not a.all(SdsMessage)


async def test_what_the_backbone_hears_reaches_the_members_with_its_hint() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "a")
        driver.channels.received("room", "spec", message("b", "m1"), b"hint")
        driver.channels.received("other", "spec", message("b", "m2", channel_id="other"))
        driver.channels.received("room", "spec", b"\xff noise")
        assert await a.hears(SdsMessage) == [SdsMessage("room", message("b", "m1"), b"hint")]
        assert sum(driver.metrics.rejects.values()) == 1
        assert not backbone.said


async def test_a_hosted_participant_sends_commands_and_hears_that_they_are_kept() -> None:
    backbone = MemoryBackbone()
    backbone.gate.clear()
    async with serving(backbone) as (_, address), remote(address, 1) as a:
        await a.joins("room", "alice", hosted=True, settings={"causal_history_size": 2})
        await a.say(Send("room", TOKEN, b"hello"))
        backbone.gate.set()
        assert await a.hears(Accepted) == [Accepted("room", TOKEN)]
        join, send = [record for _, record in backbone.commands]
        assert (join.kind, join.participant_id, dict(join.settings)) == (
            "join",
            "alice",
            {"causal_history_size": 2},
        )
        assert (send.kind, send.token, send.content) == ("send", TOKEN, b"hello")
        await a.say(Leave("room", final=True))
        await until(lambda: len(backbone.commands) == 3)
        assert backbone.commands[-1][1].kind == "leave"


async def test_an_accepted_command_is_durable() -> None:
    backbone = MemoryBackbone()
    backbone.gate.clear()
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "alice", hosted=True)
        await a.say(Send("room", TOKEN, b"hello"))
        await until(lambda: driver.metrics.staged == 2)
        assert not a.all(Accepted)


async def test_a_hosted_participant_hears_its_events_and_those_of_the_channel_once_and_in_order() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (_, address), remote(address, 1) as a:
        await a.joins("room", "alice", hosted=True)
        for record in (
            event(1, content=b"hi"),
            event(2, "acknowledged", "alice"),
            event(2, "acknowledged", "alice"),
            event(1, content=b"hi"),
            event(3, "acknowledged", "bob"),
            event(4, "sent", "bob"),
            event(5),
        ):
            backbone.tell("room", record)
        backbone.tell("other", event(6))
        await a.hears(EventFrame, 3)
        assert [(frame.number, frame.kind) for frame in a.all(EventFrame)] == [
            (1, "delivered"),
            (2, "acknowledged"),
            (5, "delivered"),
        ]


@pytest.mark.parametrize("with_cursor", [True, False])
async def test_events_are_resumed_from_the_number_that_the_client_names(with_cursor: bool) -> None:
    backbone = MemoryBackbone()
    for number in range(1, 11):
        backbone.tell("room", event(number))
        backbone.tell("other", event(number))
    async with serving(backbone) as (_, address), remote(address, 1) as a:
        cursor = (7).to_bytes(8, "big") if with_cursor else None
        await a.joins("room", "alice", hosted=True, after=4, cursor=cursor)
        await a.hears(Mark)
        backbone.tell("room", event(11))
        await a.hears(EventFrame, 7)
        assert [frame.number for frame in a.all(EventFrame)] == list(range(5, 12))


async def test_an_event_that_was_not_heard_is_read() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "alice", hosted=True)
        backbone.tell("room", event(1))
        backbone.told.append(("room", event(2)))
        backbone.tell("room", event(3))
        await a.hears(EventFrame, 3)
        backbone.tell("room", event(4))
        await a.hears(EventFrame, 4)
        assert [frame.number for frame in a.all(EventFrame)] == [1, 2, 3, 4]
        assert driver.metrics.events_out == 4


async def test_events_that_come_while_the_past_is_read_are_neither_lost_nor_repeated() -> None:
    backbone = MemoryBackbone(page=1)
    for number in range(1, 31):
        backbone.tell("room", event(number))
    async with serving(backbone) as (_, address), remote(address, 1) as a:
        await a.joins("room", "alice", hosted=True, cursor=b"")
        for number in range(31, 61):
            backbone.tell("room", event(number))
            await a.hears(EventFrame, max(0, number - 31))
        await a.hears(EventFrame, 60)
        assert [frame.number for frame in a.all(EventFrame)] == list(range(1, 61))


async def test_ephemeral_messages_take_the_live_path_to_everybody() -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone) as (_, address),
        remote(address, 1) as thin,
        remote(address, 2) as full,
        remote(address, 3) as other,
    ):
        await thin.joins("room", "alice", hosted=True)
        await full.joins("room", "bob")
        await other.joins("room", "carol", hosted=True)
        await thin.say(Send("room", TOKEN, b"typing", ephemeral=True))
        (received,) = await full.hears(SdsMessage)
        assert decode(received.wire, "spec").kind == "ephemeral"
        (heard,) = await other.hears(EventFrame)
        assert (heard.number, heard.kind, heard.content) == (None, "delivered", b"typing")
        assert heard.details == {"sender_id": "alice", "ephemeral": True}
        await thin.hears(Accepted)
        assert [record.wire for _, record in backbone.said] == [received.wire]
        assert [record.kind for _, record in backbone.commands] == ["join", "join"]
        assert not thin.all(EventFrame)


async def test_a_full_participant_is_brought_the_past_from_its_cursor() -> None:
    backbone = MemoryBackbone()
    for number in range(10):
        backbone.keep("room", message("x", f"m{number}", number))
        backbone.keep("other", message("x", f"o{number}", number, "other"))
    async with serving(backbone) as (_, address):
        async with remote(address, 1) as a:
            await a.joins("room", "a", cursor=b"")
            await until(lambda: a.all(Mark) and a.all(Mark)[-1].present)
            assert [decode(frame.wire, "spec").message_id for frame in a.all(SdsMessage)] == [
                f"m{number}" for number in range(10)
            ]
            assert all(frame.retrieval_hint for frame in a.all(SdsMessage))
            assert (await a.hears(Head))[0].newest[-1] == (9, "m9")
            cursor = a.all(Mark)[-1].cursor
        backbone.keep("room", message("x", "m10", 10))
        async with remote(address, 1) as a:
            await a.joins("room", "a", cursor=cursor)
            await until(lambda: a.all(Mark) and a.all(Mark)[-1].present)
            assert [decode(frame.wire, "spec").message_id for frame in a.all(SdsMessage)] == ["m10"]
        async with remote(address, 1) as a:
            await a.joins("room", "a")
            await a.say(AskHead("room"))
            assert (await a.hears(Head, 2))[1].newest[-1] == (10, "m10")
            assert not a.all(SdsMessage)


async def test_a_silent_channel_tells_its_head_once() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "a")
        assert (await a.hears(Head))[0].newest == ()
        backbone.keep("room", message("x", "trailing", 7))
        assert (await a.hears(Head, 2))[1].newest == ((7, "trailing"),)
        assert (await a.hears(Mark))[0].present
        channel = driver.channels.open_channels["room", "spec"]
        checked_s = channel.checked_s
        await until(lambda: channel.checked_s > checked_s)
        assert driver.metrics.heads_out == 2


async def test_what_is_asked_for_comes_from_the_store_then_from_peers() -> None:
    backbone = MemoryBackbone()
    stored, peer_wire = message("x", "stored", 1), message("x", "held", 2)
    backbone.keep("room", stored)
    async with serving(backbone) as (driver, address), remote(address, 1) as a, remote(address, 2) as b:
        await a.joins("room", "a")
        await b.joins("room", "b")
        wanted = tuple(HistoryEntry(name) for name in ("stored", "held", "unknown"))
        await a.say(Fetch("room", 5, wanted))
        (question,) = await b.hears(Fetch)
        assert [entry.message_id for entry in question.entries] == ["held", "unknown"]
        forged = message("x", "other", 3)
        await b.say(Fetched("room", question.request, ((peer_wire, None), (forged, None), (b"\xff", None))))
        (answer,) = await a.hears(Fetched)
        assert (answer.request, answer.more) == (5, False)
        assert [wire for wire, _ in answer.wires] == [stored, peer_wire]
        assert driver.metrics.lookups == {"store": 1, "peer": 1, "nowhere": 1}


async def test_a_large_answer_comes_in_parts_that_fit_whatever_the_edge_itself_reads() -> None:
    backbone = MemoryBackbone()
    for number in range(20):
        backbone.keep("room", message("x", f"m{number}", number, content=bytes(100_000)))
    async with serving(backbone, max_frame_bytes=3 * 1024**2) as (_, address), remote(address, 1) as a:
        await a.joins("room", "a")
        await a.say(Fetch("room", 1, tuple(HistoryEntry(f"m{number}") for number in range(20))))
        await until(lambda: a.all(Fetched) and not a.all(Fetched)[-1].more)
        parts = a.all(Fetched)
        assert len(parts) > 1 and all(part.more for part in parts[:-1])
        assert sum(len(part.wires) for part in parts) == 20


def test_no_edge_reads_less_than_participants_send() -> None:
    with pytest.raises(ValidationError):
        SdsEdgeSettings(max_frame_bytes=DEFAULT_MAX_FRAME_BYTES - 1)


async def test_an_answer_that_nobody_asked_for_is_passed_over() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "a")
        await a.say(Fetched("room", 0, ((message("x", "m"), None),)), AskHead("room"))
        await a.hears(Head, 2)
        assert driver.metrics.rejects["sds.fetch.unasked"] == 1


async def test_the_job_is_answered_from_the_store_and_later_from_peers() -> None:
    backbone = MemoryBackbone()
    stored, peer_wire = message("x", "stored", 1), message("x", "held", 2)
    backbone.keep("room", stored)
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "a")
        entries = (HistoryEntry("stored"), HistoryEntry("held"))
        driver.channels.wanted("room", SdsFetchRecord("spec", entries, 1))
        await until(lambda: len(backbone.said) == 1)
        assert (backbone.said[0][1].wire, backbone.said[0][1].peer_id) == (stored, None)
        assert backbone.said[0][1].retrieval_hint is not None
        assert not a.all(Fetch)
        driver.channels.wanted("room", SdsFetchRecord("spec", entries, 2))
        (question,) = await a.hears(Fetch)
        await a.say(Fetched("room", question.request, ((peer_wire, None),)))
        await until(lambda: len(backbone.said) == 3)
        assert backbone.said[-1][1].wire == peer_wire


async def test_what_has_just_passed_is_not_looked_for() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "a")
        driver.channels.received("room", "spec", message("x", "m1"))
        backbone.keep("room", message("x", "m1"))
        driver.channels.wanted("room", SdsFetchRecord("spec", (HistoryEntry("m1"),), 1))
        await until(lambda: not driver.channels.is_fetching)
        assert not backbone.said


async def test_the_channel_is_followed_as_long_as_somebody_is_in() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (driver, address):
        async with remote(address, 1) as a, remote(address, 2) as b:
            await a.joins("room", "a")
            await b.joins("room", "b")
            assert backbone.followed["room"] == 2
            await a.say(Leave("room"))
            await until(lambda: backbone.followed["room"] == 1)
        await until(lambda: backbone.followed["room"] == 0)
        assert not driver.channels.open_channels and driver.metrics.memberships == 0


async def test_a_channel_that_was_left_may_be_joined_again() -> None:
    backbone = MemoryBackbone()
    async with serving(backbone) as (_, address), remote(address, 1) as a:
        await a.joins("room", "a")
        await a.say(Leave("room"))
        await a.joins("room", "a", hosted=True)
        assert len(a.all(Joined)) == 2 and not a.all(Refused)


async def test_a_graceful_end_keeps_what_was_taken() -> None:
    backbone = MemoryBackbone()
    backbone.gate.clear()
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "a")
        await a.say(*(SdsMessage("room", message("a", f"m{number}")) for number in range(50)))
        await until(lambda: driver.metrics.staged == 51)
        backbone.gate.set()
        await driver.finish("the end")
        assert len(backbone.said) == 50
        assert (await a.closed()).code == CloseCode.SHUTTING_DOWN
