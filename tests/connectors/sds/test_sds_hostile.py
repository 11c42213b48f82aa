"""What remotes may not do at the SDS edge, and what it costs them: a word, or the connection."""

from __future__ import annotations

import pytest

from culm_connectors.transport import CloseCode
from culm_models.sds.frames import codec as wire
from culm_models.sds.frames.messages import (
    Accepted,
    AskHead,
    Fetch,
    Frame,
    Head,
    Hello,
    Join,
    Joined,
    Leave,
    Refused,
    SdsMessage,
    Send,
)
from culm_models.sds.wire.messages import HistoryEntry
from tests.support.connectors.quic import identity
from tests.support.process.waiting import until
from tests.support.sds.edge import MemoryBackbone, message, remote, serving

TOKEN = bytes(16)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff" * 8, CloseCode.TOO_LARGE),
        (bytes(4), CloseCode.TOO_LARGE),
        (b"\x00\x00\x00\x01\xff", CloseCode.PROTOCOL),
        (b"\x00\x00\x00\x02\x81\x18", CloseCode.PROTOCOL),
        (b"GET / HTTP/1.1\r\n\r\n", CloseCode.TOO_LARGE),
        (wire.encode(Hello(1, 1, 1)), CloseCode.PROTOCOL),
        (wire.encode(Joined("room")), CloseCode.PROTOCOL),
        (wire.encode(Accepted("room", TOKEN)), CloseCode.PROTOCOL),
        (wire.encode(Head("room", ())), CloseCode.PROTOCOL),
    ],
)
async def test_bytes_that_are_no_frame_end_the_connection_and_no_other(data: bytes, code: CloseCode) -> None:
    async with serving(MemoryBackbone()) as (_, address), remote(address, 1) as a, remote(address, 2) as b:
        await b.joins("room", "b")
        await a.send(data)
        assert (await a.closed()).code == code
        await b.say(AskHead("room"))
        await b.hears(Head, 2)


async def test_a_stream_that_ends_within_a_frame_is_no_orderly_end() -> None:
    async with serving(MemoryBackbone()) as (_, address), remote(address, 1) as a:
        await a.send(wire.encode(AskHead("room"))[:-1])
        a.stream.finish()
        assert (await a.closed()).code == CloseCode.PROTOCOL


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([SdsMessage("room", message("a", "m"))], "sds.join.missing"),
        ([Send("room", TOKEN, b"x")], "sds.join.missing"),
        ([Fetch("room", 1, (HistoryEntry("m"),))], "sds.join.missing"),
        ([AskHead("room")], "sds.join.missing"),
        ([Join("room", "spec", "a"), Send("room", TOKEN, b"x")], "sds.join.missing"),
        ([Join("room", "spec", "a", hosted=True), SdsMessage("room", b"")], "sds.join.missing"),
        ([Join("room", "spec", "a"), Join("room", "spec", "a")], "sds.join.twice"),
        ([Join("room", "spec", "ab" * 32)], "sds.join.identity"),
        ([Join("forbidden", "spec", "a")], "sds.join.refused"),
        ([Join(f"room {number}", "spec", "a") for number in range(4)], "sds.join.too_many"),
        ([Join("room", "spec", "a"), SdsMessage("room", b"\xff")], "sds.message.truncated"),
        (
            [Join("room", "spec", "a"), SdsMessage("room", message("a", "m", channel_id="other"))],
            "sds.channel",
        ),
        ([Join("room", "spec", "a", hosted=True), Send("room", TOKEN, b"")], "sds.content.empty"),
        ([Join("room", "spec", "a", hosted=True), Send("room", TOKEN, bytes(600_000))], "sds.size"),
    ],
)
async def test_what_is_not_allowed_is_answered_with_its_code(frames: list[Frame], code: str) -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone, permit=lambda _, channel: channel != "forbidden", max_channels=3) as (_, address),
        remote(address, 1) as a,
    ):
        await a.say(*frames)
        (refused,) = await a.hears(Refused)
        assert refused.code == code
        assert a.connection.close_reason is None
        assert not backbone.said


async def test_a_peers_own_id_may_be_its_participant_id() -> None:
    async with serving(MemoryBackbone()) as (_, address), remote(address, 1) as a:
        await a.joins("room", identity(1).peer_id.hex())


async def test_leaving_what_was_not_joined_is_harmless() -> None:
    async with serving(MemoryBackbone()) as (_, address), remote(address, 1) as a:
        await a.say(Leave("room"), Leave("room", final=True))
        await a.joins("room", "a")


async def test_too_much_that_must_be_refused_ends_the_connection() -> None:
    async with serving(MemoryBackbone(), rejects_per_minute=5) as (_, address), remote(address, 1) as a:
        await a.say(*[SdsMessage("room", b"")] * 10)
        assert (await a.closed()).code == CloseCode.PROTOCOL


async def test_too_many_requests_at_a_time_are_refused() -> None:
    async with (
        serving(MemoryBackbone(), max_requests=1) as (driver, address),
        remote(address, 1) as a,
        remote(address, 2) as b,
    ):
        await a.joins("room", "a")
        await b.joins("room", "b")
        await a.say(Fetch("room", 1, (HistoryEntry("x"),)))
        await b.hears(Fetch)
        await a.say(Fetch("room", 2, (HistoryEntry("x"),)))
        (refused,) = await a.hears(Refused)
        assert refused.code == "sds.fetch.too_many"
        assert driver.metrics.rejects["sds.fetch.too_many"] == 1


async def test_a_peer_that_does_not_read_what_happens_is_dropped_and_others_are_not_held_up() -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone, max_outbox_bytes=65_536) as (driver, address),
        remote(address, 1, listens=False) as slow,
        remote(address, 2) as quick,
        remote(address, 3) as speaker,
    ):
        await slow.say(Join("room", "spec", "slow"))
        await until(lambda: driver.metrics.memberships == 1)
        await quick.joins("room", "quick")
        await speaker.joins("room", "speaker")
        content = bytes(30_000)
        for number in range(200):
            await speaker.say(SdsMessage("room", message("speaker", f"m{number}", content=content)))
            await quick.hears(SdsMessage, number + 1)
        assert (await slow.closed()).code == CloseCode.OVERLOADED
        assert speaker.connection.close_reason is None and quick.connection.close_reason is None


async def test_the_past_waits_for_a_slow_reader_instead_of_dropping_it() -> None:
    backbone = MemoryBackbone()
    for number in range(100):
        backbone.keep("room", message("x", f"m{number}", number, content=bytes(30_000)))
    async with serving(backbone, max_outbox_bytes=65_536) as (_, address), remote(address, 1) as a:
        await a.joins("room", "a", cursor=b"")
        await a.hears(SdsMessage, 100)
        assert a.connection.close_reason is None


async def test_a_peer_that_reads_nothing_of_the_past_it_asked_for_is_dropped() -> None:
    backbone = MemoryBackbone()
    for number in range(100):
        backbone.keep("room", message("x", f"m{number}", number, content=bytes(30_000)))
    async with (
        serving(backbone, max_outbox_bytes=65_536, max_catching_up=1, stall_timeout_s=0.5) as (_, address),
        remote(address, 1, listens=False) as stalled,
        remote(address, 2) as other,
    ):
        await stalled.say(Join("room", "spec", "stalled", cursor=b""))
        assert (await stalled.closed()).code == CloseCode.OVERLOADED
        await other.joins("room", "other", cursor=b"")
        await other.hears(SdsMessage, 100)


async def test_while_kafka_is_slow_a_peer_is_read_no_further_than_its_share() -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone, max_staged_items_per_peer=10) as (driver, address),
        remote(address, 1) as a,
        remote(address, 2) as b,
    ):
        await a.joins("room", "a")
        await b.joins("room", "b")
        # The first full participant opens the channel, by a command.
        await until(lambda: backbone.commands and driver.metrics.staged == 0)
        backbone.gate.clear()
        await a.say(*(SdsMessage("room", message("a", f"m{number}")) for number in range(40)))
        await until(lambda: driver.metrics.staged == 10)
        await b.say(SdsMessage("room", message("b", "mine")))
        await a.hears(SdsMessage)
        assert driver.metrics.staged == 11
        backbone.gate.set()
        await until(lambda: len(backbone.said) == 41)


async def test_other_rules_close_connections_in_channels_that_are_now_forbidden() -> None:
    allowed = {"room", "other"}
    async with (
        serving(MemoryBackbone(), permit=lambda _, channel: channel in allowed) as (driver, address),
        remote(address, 1) as a,
        remote(address, 2) as b,
    ):
        await a.joins("room", "a")
        await b.joins("other", "b")
        allowed.discard("room")
        driver.judge_again()
        assert (await a.closed()).code == CloseCode.REVOKED
        assert b.connection.close_reason is None
