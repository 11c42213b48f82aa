"""Copies of topics that cannot be written, or are damaged: p2panda's index, Chotki's store, SDS's index."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.chotki.protocol import ChotkiProtocol
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.edge.doors import Doors
from culm_connectors.edge.opening.reopening import ClosedProtocol
from culm_connectors.local_store.errors import StoreDamaged
from culm_connectors.local_store.lmdb_file import DATA_FILE
from culm_connectors.local_store.writer import WritingThread
from culm_connectors.p2panda.reference_peer.authoring import Draft
from culm_connectors.protocols import PROTOCOLS
from culm_connectors.sds.history import store_lookup
from culm_connectors.sds.protocol import SdsProtocol
from culm_connectors.settings import ConnectorSettings
from culm_models.chotki.replica import Replica
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.sds.frames.messages import SdsMessage
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key
from tests.connectors.chotki.test_chotki_edge import connected, make_objects, total
from tests.support.chotki.bridge import bridging
from tests.support.connectors.edge import Edge, connector, ready, reference_peer, running, write_document
from tests.support.p2panda.logs import SCHEMA
from tests.support.process.full_disk import Disk, leave_no_space, leave_space, lose_pages
from tests.support.process.waiting import until
from tests.support.sds.connectors import QUICK, at, store
from tests.support.sds.edge import message

PARTITIONS = 4
pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits for space asks often, and damage is looked for often."""
    init: Any = WritingThread.__init__

    def impatient(self: WritingThread, name: str, folder: Path, **_: float) -> None:
        init(self, name, folder, retry_interval_s=0.05)

    monkeypatch.setattr(WritingThread, "__init__", impatient)
    monkeypatch.setattr(store_lookup, "_RETRY_S", 0.05)


def write_truth(kafka: KafkaSettings, log: list[CheckedOperation]) -> None:
    """What the job writes."""
    writer = producer(kafka)
    for entry in log:
        record = LogRecord(
            entry.entry.seq_num, entry.entry_bytes, entry.payload_bytes, entry.hash, entry.schema_id
        )
        writer.produce(kafka.topic("logs"), record.encode(), log_key(*entry.log))
    assert writer.flush(20) == 0


@contextlib.asynccontextmanager
async def started(edge: Edge) -> AsyncIterator[Callable[[], Doors]]:
    """A connector that may not be ready; its failure fails the test."""

    def doors() -> Doors:
        assert edge.doors is not None
        return edge.doors

    task = asyncio.create_task(edge.run())
    try:
        await until(lambda: task.done() or edge.doors is not None)
        yield doors
    finally:
        edge.stop()
        await task


async def test_a_full_index_takes_nothing_and_goes_on_when_there_is_space_and_sds_meanwhile(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    settings = {"map_size_bytes": 1 << 20, "max_index_bytes": 1 << 20, "sds": QUICK}
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,), **settings)) as edge,
        reference_peer(tmp_path, "a") as writer,
        reference_peer(tmp_path, "b") as reader,
    ):
        assert edge.address is not None
        small = await write_document(writer, 3)
        await writer.sync(edge.address)
        large = [
            operation
            for _ in range(30)
            for operation in await writer.publish([Draft("create", SCHEMA, {"name": "x" * 60_000})])
        ]
        writer.dial(edge.address)
        await until(lambda: any("(index.full)" in reason for reason in edge.health.why_not_ready()))
        async with at(edge, 1) as a, at(edge, 2) as b:
            await a.joins("room", "a")
            await b.joins("room", "b")
            await a.say(SdsMessage("room", message("a", "m1", 1)))
            await b.hears(SdsMessage)
        await reader.sync(edge.address)
        assert reader.store.height(*small[0].log) == 4, "what is held is served"
        edge.index.store._environment._max_size_bytes = 1 << 26
        await until(lambda: not edge.health.why_not_ready())
        heights = {operation.log: 1 for operation in large}
        await until(lambda: all(edge.index.store.height(*log) == 1 for log in heights))
        await reader.sync(edge.address)
        await reader.wait_until_holding(heights, 30)


async def test_an_index_that_is_damaged_while_it_is_open_is_built_again_and_sds_goes_on(
    tmp_path: Path, kafka: KafkaSettings, disk: Disk
) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,), sds=QUICK)) as edge,
        reference_peer(tmp_path, "a") as writer,
        reference_peer(tmp_path, "b") as reader,
    ):
        assert edge.address is not None
        log = await write_document(writer, 5)
        await writer.sync(edge.address)
        write_truth(kafka, log)
        damaged, sds = edge.p2panda, edge.sds
        lose_pages(tmp_path / "edge" / "index" / DATA_FILE)
        # Taking an entry is what meets it; the peer is not told that it is held, and brings it again.
        later = await write_document(writer, 0)
        writer.dial(edge.address)
        await until(lambda: edge.protocols["p2panda"] is not damaged)
        reader.dial(edge.address)
        await reader.wait_until_holding({log[0].log: 6, later[0].log: 1}, 30)
        assert edge.sds is sds
        await until(lambda: not edge.health.why_not_ready())


async def test_a_store_of_chotki_that_is_damaged_while_it_is_open_or_closed_is_filled_again(
    tmp_path: Path, kafka: KafkaSettings, disk: Disk
) -> None:
    folder = tmp_path / "edge"
    ann = ReplicaPeer(Replica(0xA, name="ann"))
    objects = make_objects(ann, 300)

    def edge() -> Edge:
        chotki = ChotkiEdgeSettings(listen=("tcp://127.0.0.1:0",), name="edge")
        settings = ConnectorSettings(directory=folder, chotki=chotki)
        return Edge(
            settings,
            kafka,
            protocols=[protocol for protocol in PROTOCOLS if protocol.name in ("chotki", "sds")],
        )

    def chotki(edge: Edge) -> ChotkiProtocol:
        protocol = edge.protocols["chotki"]
        assert isinstance(protocol, ChotkiProtocol)
        return protocol

    async with bridging(kafka, PARTITIONS) as bridge:
        async with ready(edge()) as first:
            async with connected(ann, first):
                await until(lambda: bridge.job.vector.get(0xA) == ann.replica.vector()[0xA])
            damaged = chotki(first)
            await until(lambda: damaged._store.vector.get(0xA) == ann.replica.vector()[0xA])
            lose_pages(folder / "chotki" / DATA_FILE)
            with pytest.raises(StoreDamaged):
                damaged._store.snapshot()
            await until(lambda: first.protocols["chotki"] is not damaged)
            await until(lambda: not first.health.why_not_ready())
            ben = ReplicaPeer(Replica(0xB, name="ben"))
            async with connected(ben, first):
                await until(lambda: total(ben, objects[-1]) == 0)
        lose_pages(folder / "chotki" / DATA_FILE)
        cyn = ReplicaPeer(Replica(0xC, name="cyn"))
        async with ready(edge()) as second, connected(cyn, second):
            await until(lambda: total(cyn, objects[-1]) == 0)


async def test_a_full_disk_makes_the_index_of_sds_late_and_channels_go_on(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka, sds=QUICK)) as edge,
        at(edge, 1) as a,
        at(edge, 2) as b,
    ):
        await a.joins("room", "a")
        await b.joins("room", "b")
        protocol = edge.protocols["sds"]
        assert isinstance(protocol, SdsProtocol)
        lookups = protocol._backbone._lookups
        await until(lambda: lookups._index is not None)
        index = lookups._index
        assert index is not None
        leave_no_space(index._file._file)
        for number in range(120):
            store(kafka, "room", message("x", f"stored {number}" * 8, number + 1))
        await until(lambda: any("topics.sds.index_file" in reason for reason in edge.health.why_not_ready()))
        await a.say(SdsMessage("room", message("a", "m1", 1)))
        await b.hears(SdsMessage)
        leave_space(index._file._file)
        await until(lambda: index.count("room") == 120)
        await until(lambda: not edge.health.why_not_ready())


async def test_a_start_on_a_full_disk_leaves_closed_what_has_a_store_until_there_is_space(
    tmp_path: Path, kafka: KafkaSettings, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    chotki = ChotkiEdgeSettings(listen=("tcp://127.0.0.1:0",))
    disk.open_nothing(monkeypatch)
    disk.has_space = False
    edge = connector(
        tmp_path / "edge",
        kafka,
        schemas=(SCHEMA,),
        sds=QUICK,
        chotki=chotki,
        bamboo={"listen": ("tcp://127.0.0.1:0",)},
        dag={"listen": "127.0.0.1:0"},
    )
    async with started(edge) as doors:
        await until(lambda: doors().address("culm/sds/1") is not None)
        closed = {name for name, protocol in edge.protocols.items() if isinstance(protocol, ClosedProtocol)}
        assert closed == {"p2panda", "chotki", "bamboo_p2p", "dag"}
        reasons = edge.health.why_not_ready()
        assert {reason.split(":")[0] for reason in reasons if ".full)" in reason} == closed
        disk.has_space = True
        await until(lambda: edge.is_ready and not edge.health.why_not_ready())
        assert edge.address is not None
        async with reference_peer(tmp_path, "a") as writer:
            await write_document(writer, 1)
            assert (await writer.sync(edge.address)).entries_sent == 2
