"""Bamboo peers at two edges of one deployment, over TCP and QUIC and a real broker; forgers are told of."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.url import Url
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.stack import Stack
from culm_infra.stack.ports import free_ports
from culm_models.bamboo.certificate_pool import lower_pool
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo_p2p.errors import DataInvalid, EvidenceBogus
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode, Eagerness, RawPayload
from culm_models.bymux import CONTROL, DATA
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import EntryRecord, HoldingRecord, decode_fragment
from culm_topics.records import RejectedRecord, log_key
from tests.support.bamboo.edge import address, bamboo_edge, offering, peer_at, until_held, until_payload
from tests.support.connectors.edge import Edge, reference_peer, topics, write_document
from tests.support.hostile.bamboo import first_entry, hostile_channels, open_proposal
from tests.support.kafka.topic_io import read_all
from tests.support.p2panda.logs import SCHEMA, author
from tests.support.process.waiting import until, while_working

pytestmark = pytest.mark.kafka

AUTHOR = KeyPair.generate(b"author at an edge")
LOG = (AUTHOR.public_key, 3)
FIRST_LOG = (AUTHOR.public_key, 0)
KEY = log_key(*LOG, YAMF)


async def records(kafka: KafkaSettings, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """So many records of a topic, once they are there."""
    async with while_working():
        while len(rows := await asyncio.to_thread(read_all, kafka, topic)) < count:
            pass
    return rows


async def test_what_a_peer_publishes_at_one_edge_arrives_live_at_a_peer_of_another(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with (
        bamboo_edge(tmp_path / "one", kafka) as edge,
        bamboo_edge(tmp_path / "other", kafka, listen=("quic://127.0.0.1:0/yamf",)) as other,
        peer_at(tmp_path / "writer", address(edge), offering(LOG)) as writer,
        peer_at(tmp_path / "reader", address(other, "bamboo-p2p/2019-10"), FollowedLog(LOG)) as reader,
    ):
        for number in range(5):
            await writer.publish(AUTHOR, 3, b"payload %d" % number)
        await until_held(reader, LOG, 5)
        # Larger than a record: in chunks.
        await writer.publish(AUTHOR, 3, b"x" * 1_300_000)
        await until_held(reader, LOG, 6)
        rows = await records(kafka, "entries", 6)
        assert [key for key, _ in rows] == [KEY] * 6
        entries = [EntryRecord.decode(value) for _, value in rows]
        assert [entry.operation for entry in entries] == [*(b"payload %d" % n for n in range(5)), b""]
        assert {entry.schema_id for entry in entries} == {""}
        assert len(await records(kafka, "payloads", 3)) == 3
        holdings = [HoldingRecord.decode(value) for _, value in await records(kafka, "holdings", 1)]
        assert {holding.log_key for holding in holdings} == {KEY}


async def test_entries_beyond_a_gap_go_to_fragments_and_join_when_it_is_closed(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with BambooPeer.open(tmp_path / "writer", flavour=YAMF) as writer:
        for number in range(30):
            await writer.publish(AUTHOR, 3, b"payload %d" % number)
        pool = lower_pool(23)

        def entries_of(store: FolderStore) -> dict[int, bytes]:
            stored = {number: store.entry(LOG, number) for number in pool}
            return {number: entry.entry_bytes for number, entry in stored.items() if entry is not None}

        bytes_of = await writer.read(entries_of)
    async with (
        bamboo_edge(tmp_path / "one", kafka) as edge,
        bamboo_edge(tmp_path / "other", kafka) as other,
    ):
        async with (
            BambooPeer.open(tmp_path / "sparse", flavour=YAMF) as sparse,
            sparse.connect(address(edge)) as remote,
        ):
            new_entries = [
                NewEntry(bytes_of[number], b"payload 22" if number == 23 else None) for number in pool
            ]
            await sparse.add(new_entries)
            await remote.propose(
                RequestedRange(
                    *LOG, 23, lower=1, end=23, eagerness=Eagerness.NOTIFY, direction=Direction.PUSH
                )
            )
            fragments = await records(kafka, "fragments", len(pool) - 1)
        assert {decode_fragment(*fragment)[2] for fragment in fragments} == set(pool) - {1}
        assert [EntryRecord.decode(value).entry for _, value in await records(kafka, "entries", 1)] == [
            bytes_of[1]
        ]
        # What proves one entry is at the other edge, for whoever asks there.
        interest = FollowedLog(LOG, 23, 23, sparse=True)
        async with peer_at(tmp_path / "reader", address(other), interest) as reader:
            await until_payload(reader, LOG, 23)
            assert await reader.read(lambda store: all(store.entry(LOG, number) for number in pool))
        async with (
            peer_at(tmp_path / "writer", address(edge), offering(LOG)),
            peer_at(tmp_path / "whole", address(other), FollowedLog(LOG)) as whole,
        ):
            await until_held(whole, LOG, 30)
        entries = {EntryRecord.decode(value).entry for _, value in await records(kafka, "entries", 30)}
        assert len(entries) == 30


async def test_bamboo_peers_read_what_p2panda_peers_write_and_the_other_way_round(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with (
        bamboo_edge(
            tmp_path / "edge",
            kafka,
            listen=("tcp://127.0.0.1:0/yasmf",),
            names=("p2panda", "bamboo_p2p"),
            schemas=(SCHEMA,),
        ) as edge,
        reference_peer(tmp_path, "panda") as panda,
    ):
        assert edge.address is not None
        log = await write_document(panda, 6)
        await panda.sync(edge.address)
        key = log[0].log
        url = address(edge, "bamboo-yasmf-tcp")
        async with peer_at(tmp_path / "reader", url, FollowedLog(key), flavour=YASMF) as reader:
            await until_held(reader, key, 7)
            payload = await reader.read(lambda store: store.read_payload(key, 1, 0, 10_000))
            assert payload == log[0].payload_bytes
        # A log of operations that comes by Bamboo is one of p2panda's.
        own = (author("by bamboo").public_key, 0)
        async with BambooPeer.open(tmp_path / "author", flavour=YASMF) as source:
            await source.publish(author("by bamboo"), 0, log[0].payload_bytes)
        panda.dial(edge.address)
        async with peer_at(tmp_path / "author", url, offering(own), flavour=YASMF):
            await panda.wait_until_holding({own: 1}, 30)


POINTS = ("before:entries", "after:entries", "before:payloads", "after:payloads")


async def test_what_an_edge_had_taken_when_it_was_killed_is_produced_when_it_starts_again(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    (port,) = free_ports(1)
    url = Url("tcp", "127.0.0.1", port)
    home = tmp_path / "edge"
    command = ("connector", "run", "--listen", "none", "--dir", str(home))
    variables = environment(kafka) | {"CULM_CONNECTOR__BAMBOO__LISTEN": f'["{url}"]'}
    whole = CulmProcess("edge", command, variables, tmp_path / "edge.log")
    end = 0
    async with (
        bamboo_edge(tmp_path / "other", kafka) as other,
        peer_at(tmp_path / "reader", address(other), FollowedLog(LOG)) as reader,
    ):
        for point in POINTS:
            dying = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.process.dying_edge", point, *command),
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            dead = asyncio.create_task(dying.wait())
            async with peer_at(tmp_path / "writer", url, offering(LOG)) as writer:
                for number in range(1_000):
                    await writer.publish(AUTHOR, 3, b"%d" % number if number % 3 else b"z" * 300_000)
                    await asyncio.wait({dead}, timeout=0.2)
                    if dead.done():
                        break
            assert dead.result() == -signal.SIGKILL, point
            store = FolderStore(home / "bamboo" / "yamf")
            end = store.end_of_held_entries(LOG, 1) - 1
            store.close()
            assert end > 0
        whole.start()
        try:
            # Nobody brings anything any more.
            await until_held(reader, LOG, end, payloads=False)
        finally:
            whole.stop()


async def test_a_broker_that_is_away_stops_the_peer_and_not_the_edge(
    tmp_path: Path, topic_prefix: str
) -> None:
    stack = Stack(tmp_path / "stack")
    try:
        kafka = topics(await asyncio.to_thread(stack.up, quick_start=True), topic_prefix)
        async with (
            bamboo_edge(tmp_path / "one", kafka, max_waiting_bytes=65_536) as edge,
            bamboo_edge(tmp_path / "other", kafka) as other,
            peer_at(tmp_path / "writer", address(edge), offering(LOG)) as writer,
            peer_at(tmp_path / "near", address(edge), FollowedLog(LOG)) as near,
            peer_at(tmp_path / "reader", address(other), FollowedLog(LOG)) as reader,
        ):
            await writer.publish(AUTHOR, 3, b"before")
            await until_held(reader, LOG, 1)
            await asyncio.to_thread(stack.kill)
            for number in range(40):
                await writer.publish(AUTHOR, 3, bytes([number]) * 60_000)
            metrics = edge.protocols["bamboo_p2p"].measured
            await until(lambda: metrics().staged_bytes > 65_536)
            # Peers of the same edge have what came, and the rest is with the writer.
            await until_held(near, LOG, 2)
            assert metrics().staged_bytes < 40 * 60_000
            await asyncio.to_thread(stack.up, quick_start=True)
            await until_held(reader, LOG, 41)
            await until(lambda: metrics().staged == 0)
    finally:
        with contextlib.suppress(Exception):
            await asyncio.to_thread(stack.down)


STRANGER = KeyPair.generate(b"a stranger at an edge")
_QUIC = "bamboo-p2p/2019-10"


@pytest.fixture
async def edge(tmp_path: Path, kafka: KafkaSettings) -> AsyncIterator[Edge]:
    async with bamboo_edge(tmp_path / "edge", kafka, listen=("quic://127.0.0.1:0/yamf",)) as running:
        yield running


async def rejected(kafka: KafkaSettings) -> RejectedRecord:
    """The first record there, once it is."""
    async with while_working():
        while not (rows := await asyncio.to_thread(read_all, kafka, "rejected")):
            pass
    value = rows[0][1]
    assert value is not None
    return RejectedRecord.decode(value)


def _with_payload(payload: bytes) -> bytes:
    return first_entry(AUTHOR, b"sound") + encode_data(RawPayload(len(payload))) + payload


def _forged_signature() -> bytes:
    data = bytearray(first_entry(AUTHOR, b"sound"))
    data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize("forged", [_forged_signature, lambda: _with_payload(b"false")])
async def test_what_is_forged_is_told_with_who_brought_it(
    edge: Edge, kafka: KafkaSettings, forged: Callable[[], bytes]
) -> None:
    url = address(edge, _QUIC)
    async with hostile_channels((url.host, url.port), private_key=STRANGER.private_key) as channels:
        await channels.write(CONTROL, open_proposal(0, AUTHOR))
        await channels.write(DATA, forged())
        record = await rejected(kafka)
    assert (record.code, record.brought_by) == (DataInvalid.code, STRANGER.public_key)


async def test_bogus_evidence_is_told_with_who_brought_it_and_what(edge: Edge, kafka: KafkaSettings) -> None:
    first, other = (sign_entry(AUTHOR, log_id, 1, b"sound", flavour=YAMF) for log_id in (0, 1))
    url = address(edge, _QUIC)
    async with hostile_channels((url.host, url.port), private_key=STRANGER.private_key) as channels:
        bogus = encode_control(Cancel(0, CancelCode.FORKED, entries=(first, other)))
        await channels.write(CONTROL, open_proposal(0, AUTHOR) + bogus)
        record = await rejected(kafka)
    assert (record.code, record.brought_by) == (EvidenceBogus.code, STRANGER.public_key)
    assert (record.first, record.entry) == (first, other)


async def test_what_was_verified_before_a_forgery_is_in_kafka(
    tmp_path: Path, edge: Edge, kafka: KafkaSettings
) -> None:
    url = address(edge, _QUIC)
    async with peer_at(tmp_path / "reader", url, FollowedLog(FIRST_LOG)) as reader:
        async with hostile_channels((url.host, url.port), private_key=STRANGER.private_key) as channels:
            await channels.write(CONTROL, open_proposal(0, AUTHOR))
            await channels.write(DATA, _with_payload(b"sound") + first_entry(AUTHOR, b"again"))
            assert (await rejected(kafka)).brought_by == STRANGER.public_key
        await until_held(reader, FIRST_LOG, 1)
    async with while_working():
        while not (rows := await asyncio.to_thread(read_all, kafka, "entries")):
            pass
    assert [EntryRecord.decode(value).operation for _, value in rows] == [b"sound"]


async def test_a_fork_is_told_with_its_proof(tmp_path: Path, edge: Edge, kafka: KafkaSettings) -> None:
    url = address(edge, _QUIC)
    async with peer_at(tmp_path / "one", url, offering(FIRST_LOG)) as peer:
        first = await peer.publish(AUTHOR, 0, b"one branch")
        async with peer_at(tmp_path / "reader", url, FollowedLog(FIRST_LOG)) as reader:
            await until_held(reader, FIRST_LOG, 1)
        async with peer_at(tmp_path / "other", url, offering(FIRST_LOG)) as other:
            second = await other.publish(AUTHOR, 0, b"the other")
            record = await rejected(kafka)
    assert record.code == "bamboo.fork"
    assert {record.first, record.entry} == {first.entry_bytes, second.entry_bytes}
