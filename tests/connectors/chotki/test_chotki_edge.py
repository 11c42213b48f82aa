"""Replicas at two edges, over TCP and a real broker that dies: all hold the same in the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.protocols import PROTOCOLS
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.stack import Stack
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.rdx import delta, parse_text, print_text
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from culm_topics.chotki.errors import SourceRetired, SourceTaken
from culm_topics.chotki.records import SourceRecord, source_key
from culm_topics.chotki.sources import FREE, read_sources, retire_source
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki.bridge import bridging
from tests.support.connectors.edge import Edge, ready, topics
from tests.support.kafka.topic_io import produce
from tests.support.process.waiting import until, while_working

pytestmark = pytest.mark.kafka

CHOTKI = tuple(protocol for protocol in PROTOCOLS if protocol.name == "chotki")


def edge(
    folder: Path, kafka: KafkaSettings, **settings: object
) -> contextlib.AbstractAsyncContextManager[Edge]:
    chotki = ChotkiEdgeSettings(listen=("tcp://127.0.0.1:0",), name=folder.name, **settings)
    return ready(Edge(ConnectorSettings(directory=folder, chotki=chotki), kafka, protocols=CHOTKI))


@contextlib.asynccontextmanager
async def connected(peer: ReplicaPeer, to: Edge, mode: int = 7) -> AsyncIterator[None]:
    assert to.doors is not None
    address = to.doors.address("chotki-tcp")
    assert address is not None
    channel = await connect_tcp(address, TcpSettings())
    task = asyncio.create_task(peer.run_session(channel, mode=mode))
    try:
        yield
    finally:
        channel.abort()
        await task


def class_entry(letter: str, name: str, offset: int) -> bytes:
    return record("T", record("t", bytes([2 * offset])), letter.encode(), b"\0", name.encode())


CLASS_BODY = class_entry("S", "Name", 1) + class_entry("N", "Count", 2)


def make_objects(peer: ReplicaPeer, count: int) -> list[Id]:
    class_id = peer.commit("C", Id(0, 0), CLASS_BODY)
    body = record("S", parse_text("S", '"tide"')) + record("N")
    return [peer.commit("O", class_id, body) for _ in range(count)]


def add(peer: ReplicaPeer, object_id: Id, number: int) -> None:
    replica = peer.replica
    old = replica.store.get(object_key(Id(object_id.src, object_id.pro + 2), "N")) or b""
    new = parse_text("N", str(int(print_text("N", old)) + number))
    operand = delta("N", old, new, src=replica.src)
    peer.commit("E", object_id, record("f", b"\x02") + record("N", operand))


def total(peer: ReplicaPeer, object_id: Id) -> int:
    value = peer.replica.store.get(object_key(Id(object_id.src, object_id.pro + 2), "N"))
    return int(print_text("N", value)) if value is not None else -1


async def test_replicas_at_two_edges_hold_the_same(tmp_path: Path, kafka: KafkaSettings) -> None:
    ann, ben = ReplicaPeer(Replica(0xA, name="ann")), ReplicaPeer(Replica(0xB, name="ben"))
    objects = make_objects(ann, 20)
    async with (
        bridging(kafka, 2) as bridge,
        edge(tmp_path / "north", kafka) as north,
        edge(tmp_path / "south", kafka) as south,
        connected(ann, north),
        connected(ben, south),
    ):
        # What Ann had before comes by a diff, through the job, to Ben who is live already.
        await until(lambda: total(ben, objects[-1]) == 0)
        for object_id in objects:
            add(ann, object_id, 1)
            add(ben, object_id, 2)
        await until(lambda: all(total(peer, object_id) == 3 for peer in (ann, ben) for object_id in objects))
        assert ann.replica.store.values() == ben.replica.store.values()
        await until(lambda: bridge.job.vector == ann.replica.vector())
        values = bridge.job.values()
        assert values == ann.replica.store.values()


async def test_a_replica_that_comes_later_gets_everything_from_either_edge(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    ann = ReplicaPeer(Replica(0xA, name="ann"))
    objects = make_objects(ann, 5)
    async with bridging(kafka, 2) as bridge, edge(tmp_path / "north", kafka) as north:
        async with connected(ann, north):
            add(ann, objects[0], 7)
            await until(lambda: bridge.job.vector.get(0xA) == ann.replica.vector()[0xA])
        late = ReplicaPeer(Replica(0xC, name="late"))
        async with edge(tmp_path / "south", kafka) as south, connected(late, south):
            await until(lambda: total(late, objects[0]) == 7)
        # The edge begins anew with what is in Kafka.
        again = ReplicaPeer(Replica(0xD, name="again"))
        async with edge(tmp_path / "east", kafka) as east, connected(again, east):
            await until(lambda: total(again, objects[0]) == 7)


async def test_a_tap_leaves_nothing_at_its_peer(tmp_path: Path, kafka: KafkaSettings) -> None:
    ann = ReplicaPeer(Replica(0xA, name="ann"))
    objects = make_objects(ann, 3)
    before = ann.replica.store.values()
    async with (
        bridging(kafka, 2) as bridge,
        edge(tmp_path / "tap", kafka, mode=5) as tap,
        connected(ann, tap),
    ):
        await until(lambda: bridge.job.vector.get(0xA) == ann.replica.vector()[0xA])
        assert ann.replica.store.values() == before
        add(ann, objects[0], 1)
        await until(lambda: bridge.job.vector.get(0xA) == ann.replica.vector()[0xA])
    assert len(ann.replica.vector()) == 2


async def test_an_edge_takes_no_source_of_another_owner_and_its_own_again(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with bridging(kafka, 2):
        for _ in range(2):
            async with edge(tmp_path / "north", kafka, source="77", mode=5):
                assert read_sources(kafka).holders[0x77].run != FREE
            # At its end it is free, and still its own.
            assert read_sources(kafka).holders[0x77].run == FREE
        first = read_sources(kafka).holders[0x77]
        with pytest.raises(SourceTaken, match="belongs to"):
            async with edge(tmp_path / "south", kafka, source="77", mode=5):
                pass
        assert read_sources(kafka).holders[0x77] == first


async def test_an_edge_is_given_a_free_source_and_takes_none_that_is_seen(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    ann = ReplicaPeer(Replica(0xA, name="ann"))
    make_objects(ann, 1)
    async with bridging(kafka, 2) as bridge:
        async with edge(tmp_path / "north", kafka) as north, connected(ann, north):
            await until(lambda: bridge.job.vector.get(0xA) == ann.replica.vector()[0xA])
        (own,) = read_sources(kafka).holders
        assert 0x10000 <= own <= 0xFFFFF
        with pytest.raises(SourceTaken, match="in use by a replica"):
            async with edge(tmp_path / "south", kafka, source="a"):
                pass
        async with edge(tmp_path / "north", kafka):
            assert read_sources(kafka).holders.keys() == {own}
        retire_source(kafka, own)
        async with edge(tmp_path / "north", kafka, mode=5):
            assert len(read_sources(kafka).holders) == 2


@pytest.mark.parametrize("way", ["claimed", "retired"])
async def test_an_edge_ends_when_its_source_is_another_runs_or_retired(
    tmp_path: Path, kafka: KafkaSettings, way: str
) -> None:
    async with bridging(kafka, 2):
        chotki = ChotkiEdgeSettings(listen=("tcp://127.0.0.1:0",), source="77", mode=5)
        running = Edge(ConnectorSettings(directory=tmp_path, chotki=chotki), kafka, protocols=CHOTKI)
        task = asyncio.create_task(running.run())
        await until(lambda: running.is_ready)
        if way == "retired":
            retire_source(kafka, 0x77, in_use=True)
        else:
            owner = running.key_pair.public_key.hex()
            claims = [SourceRecord(owner, run, "allocated", 1).encode() for run in (FREE, b"2" * 16)]
            produce(kafka, "chotki.sources", [(source_key(0x77), claim) for claim in claims])
        with pytest.raises((SourceTaken, SourceRetired), match=way):
            async with while_working():
                await task


async def keep_connected(peer: ReplicaPeer, to: Edge) -> None:
    """As a replica does: call again whenever the connection has ended."""
    assert to.doors is not None
    address = to.doors.address("chotki-tcp")
    assert address is not None
    while True:
        with contextlib.suppress(TransportError):
            await peer.run_session(await connect_tcp(address, TcpSettings()))
        await asyncio.sleep(0.2)


async def test_what_is_live_while_the_broker_is_away_comes_when_it_is_back(
    tmp_path: Path, topic_prefix: str
) -> None:
    stack = Stack(tmp_path / "stack")
    ann, ben = ReplicaPeer(Replica(0xA, name="ann")), ReplicaPeer(Replica(0xB, name="ben"))
    objects = make_objects(ann, 10)
    try:
        kafka = topics(await asyncio.to_thread(stack.up, quick_start=True), topic_prefix)
        async with (
            bridging(kafka, 2) as bridge,
            edge(tmp_path / "north", kafka) as north,
            edge(tmp_path / "south", kafka) as south,
        ):
            calling = [
                asyncio.create_task(keep_connected(peer, to)) for peer, to in ((ann, north), (ben, south))
            ]
            await until(lambda: total(ben, objects[-1]) == 0)
            await asyncio.to_thread(stack.kill)
            for object_id in objects:
                add(ann, object_id, 1)
                add(ben, object_id, 2)
            await asyncio.to_thread(stack.up, quick_start=True)
            await until(
                lambda: all(total(peer, object_id) == 3 for peer in (ann, ben) for object_id in objects)
            )
            await until(lambda: bridge.job.values() == ann.replica.store.values())
            assert ann.replica.store.values() == ben.replica.store.values()
            for task in calling:
                task.cancel()
            await asyncio.gather(*calling, return_exceptions=True)
    finally:
        await asyncio.to_thread(stack.down)
