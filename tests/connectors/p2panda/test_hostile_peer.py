"""What a remote may do to a driver over a live connection: nothing that lasts."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport import CloseCode, CloseOrigin
from culm_models.p2panda.wire.codec import encode
from culm_models.p2panda.wire.messages import (
    Announce,
    EntryMessage,
    Have,
    Message,
    SyncDone,
    SyncRequest,
)
from tests.support.connectors.edge import reference_peer, write_document
from tests.support.hostile.remote import Hostile, hostile
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

MALLORY = author("mallory")


async def begin_session(remote: Hostile, schema_id: str = SCHEMA) -> None:
    await remote.say(Announce(1, 1, (schema_id,)), SyncRequest(0, 0, (schema_id,)), Have(0, ()))
    await until(lambda: any(isinstance(message, SyncDone) for message in remote.heard))


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 64,
        b"\x00",
        bytes.fromhex("9f0001"),
        bytes.fromhex("8400011a00bc614e81") + b"\x7f",
        bytes.fromhex("c1820102"),
        bytes.fromhex("8218630101"),
        random.Random(7).randbytes(4096),
        encode(Announce(1, 1, (SCHEMA,))) + b"\xff",
    ],
    ids=[
        "breaks",
        "integer",
        "indefinite",
        "indefinite text",
        "tag",
        "unknown type",
        "random",
        "behind a message",
    ],
)
async def test_garbage_ends_the_connection_and_nothing_else(tmp_path: Path, garbage: bytes) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", live_mode=False) as b,
        a.serve() as listener,
    ):
        log = await write_document(a, 3)
        async with hostile(listener.address, MALLORY) as remote:
            await remote.send(garbage)
            reason = await remote.closed()
        assert (reason.origin, reason.code) == (CloseOrigin.REMOTE, CloseCode.PROTOCOL)
        await b.sync(listener.address)
        assert b.heights() == {log[0].log: 4}


async def test_a_message_without_end_is_cut_off_before_it_fills_memory(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a, a.serve() as listener:
        async with hostile(listener.address, MALLORY) as remote:
            head = bytes.fromhex("840200") + b"\x5b" + (2**40).to_bytes(8, "big")
            await remote.send(head + bytes(200_000))
            reason = await remote.closed()
        assert reason.code == CloseCode.TOO_LARGE
        assert a.driver.metrics.entries_in == 0


async def test_a_truncated_message_waits_and_is_forgotten_with_the_connection(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a, a.serve() as listener:
        message = encode(Announce(1, 9, (SCHEMA,)))
        async with hostile(listener.address, MALLORY) as remote:
            await remote.send(message[:-3])
        await until(lambda: not a.driver.links.open)
        assert a.driver.peer.remote_announcement(MALLORY.public_key) is None
        async with hostile(listener.address, MALLORY) as remote:
            await remote.send(message[:-3])
            remote.stream.finish()
            assert (await remote.closed()).code == CloseCode.PROTOCOL
        async with hostile(listener.address, MALLORY) as remote:
            for position in range(len(message)):
                await remote.send(message[position : position + 1])
            await until(lambda: a.driver.peer.remote_announcement(MALLORY.public_key) is not None)


async def test_a_second_stream_is_against_the_protocol(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a") as a,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        await remote.say(Announce(1, 1, ()))
        second = await remote.connection.open_stream()
        await second.write(b"\x84")
        assert (await remote.closed()).code == CloseCode.PROTOCOL


async def test_wrong_entries_are_refused_one_by_one_and_too_many_end_the_connection(tmp_path: Path) -> None:
    log = make_log(author("writer"), 0, 6)
    foreign = make_log(author("writer"), 1, 1, schema_id=OTHER_SCHEMA)
    flipped = log[0].entry_bytes[:-1] + bytes([log[0].entry_bytes[-1] ^ 1])
    wrong: list[Message] = [
        EntryMessage(0, flipped, log[0].payload_bytes),
        EntryMessage(0, log[0].entry_bytes, log[1].payload_bytes),
        EntryMessage(0, log[3].entry_bytes, log[3].payload_bytes),
        EntryMessage(0, b"", b""),
        EntryMessage(0, *pairs(foreign)[0]),
        EntryMessage(7, *pairs(log)[0]),
    ]
    right: list[Message] = [EntryMessage(0, *pair) for pair in pairs(log)]
    limits = DriverSettings(rejects_per_minute=20)
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA], driver=limits) as a,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        await begin_session(remote)
        await remote.say(*wrong, *right)
        await a.wait_until_holding({log[0].log: 6}, 20)
        codes = dict(a.driver.metrics.rejects)
        assert codes == {
            "bamboo.signature": 1,
            codes_of_payload(codes): 1,
            "bamboo.backlink_unknown": 1,
            "bamboo.truncated": 1,
            "p2panda.session.schema": 1,
        }
        await remote.say(*[wrong[0]] * 40)
        reason = await remote.closed()
        assert (reason.code, reason.text) == (CloseCode.PROTOCOL, "too many refused entries")
        assert a.heights() == {log[0].log: 6}


def codes_of_payload(codes: dict[str, int]) -> str:
    """The code of the entry with another's operation: its size or its hash is wrong."""
    (code,) = [code for code in codes if code.startswith("bamboo.payload")]
    return code


async def test_a_remote_that_never_reads_holds_nobody_else_up(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", live_mode=False) as b,
        a.serve() as listener,
    ):
        for _ in range(10):
            await write_document(a, 400)
        async with hostile(listener.address, MALLORY, listens=False) as remote:
            await remote.say(Announce(1, 1, (SCHEMA,)), SyncRequest(0, 0, (SCHEMA,)), Have(0, ()))
            link = a.driver.links.open[MALLORY.public_key]
            await until(lambda: link.connection.statistics().unsent_bytes > 500_000)
            summary = await b.sync(listener.address)
            assert summary.entries_received == 4_010
            assert link.connection.statistics().unsent_bytes <= 1_100_000


async def test_requests_out_of_order_harm_nothing(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA], driver=DriverSettings(request_wait_s=0)) as a,
        a.serve() as listener,
        hostile(listener.address, MALLORY) as remote,
    ):
        await write_document(a, 2)
        await remote.say(
            SyncDone(3, True),
            Have(9, ()),
            SyncRequest(0, 7, (SCHEMA,)),
            SyncRequest(0, 0, (OTHER_SCHEMA,)),
            SyncRequest(1, 0, ()),
        )
        await begin_session(remote)
        await remote.say(Have(0, ()), SyncRequest(0, 0, (SCHEMA,)))
        await until(lambda: a.driver.metrics.ignored.total() >= 7)
        sent = [message for message in remote.heard if isinstance(message, EntryMessage)]
        assert len(sent) == 3
        assert remote.connection.close_reason is None


async def test_a_peer_that_calls_itself_is_turned_away(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a, a.serve() as listener:
        task = a.dial(listener.address)
        await until(lambda: task.done() or not a.driver.links.open)
        await asyncio.sleep(0)
        assert not a.driver.links.open
        task.cancel()
