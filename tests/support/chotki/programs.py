"""A program's changes on all their ways, without Kafka: to a replica, over the job, and to an export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from culm_models.chotki.ids import Id
from culm_models.chotki.log0 import common_store
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_topics.chotki.changes import Change
from culm_topics.chotki.objects import ChotkiObject, Objects
from culm_topics.chotki.packet_maker import PacketMaker
from culm_topics.chotki.records import RecordOrigin
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.state_reader import AppliedEpoch, EpochStaging
from culm_topics.kafka.origin import Origin
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.chotki.state import StateLog

ORIGIN = Origin("cluster", {"culm.chotki.state": "id"})
BRINGER = RecordOrigin(bytes(32), 0, 0)


class Programs:
    """Writers by source, the job, and a reader of its state; `replica` takes each packet as it is made."""

    def __init__(self, file: StateFile | None = None) -> None:
        self.topics = ChotkiTopics()
        self.job = ChotkiJob(self.topics)
        self.log = StateLog()
        self.staging = EpochStaging(3, file)
        self.replica = Replica(99, MemoryStore(common_store()))
        self._makers: dict[int, PacketMaker] = {}
        self._read = [0] * 3

    @property
    def state(self) -> Any:
        """What counts."""
        return self.staging.state

    def write(self, *changes: Change, src: int = 10) -> list[Id | None]:
        """Changes of a source, on top of what it knows: the last epoch, and its own."""
        maker = self._makers.setdefault(src, PacketMaker(src, self.state.table))
        made = maker.make(changes)
        for packet in (packet for commit in made for packet in commit.packets):
            self.topics.packet(BRINGER, packet.after, packet.packet)
            self.replica.apply(read_live(parse(packet.packet), packet.packet))
        return [commit.id for commit in made]

    def known_to(self, src: int) -> Objects:
        """What a source knows: the last epoch, and its own."""
        return self._makers.setdefault(src, PacketMaker(src, self.state.table)).objects

    def merge(self) -> list[AppliedEpoch]:
        """An epoch of all that was written, read to its end."""
        self.log.write(self.job.run())
        applied: list[AppliedEpoch] = []
        for number, records in enumerate(self.log.partitions):
            taken = [self.staging.take(record) for record in records[self._read[number] :]]
            applied += [packet for packet in taken if packet is not None]
            self._read[number] = len(records)
        for src, maker in self._makers.items():
            maker.settle(self.state.vector.get(src, 0))
        return applied

    def get(self, name: str | Id) -> ChotkiObject:
        """An object as a consumer has it."""
        view = Objects(self.state.table)
        record = view.object(view.resolve(name))
        assert record is not None
        return record


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows that count, by `_id`, as a reader gets them who joins the schemas of all files."""
    files = sorted(folder.rglob("*.parquet"))
    schema = pa.unify_schemas([pq.read_schema(file) for file in files] + [pa.schema([("epoch", pa.int32())])])
    part = ds.partitioning(pa.schema([("epoch", pa.int32())]), flavor="hive")
    table = ds.dataset(folder, schema=schema, partitioning=part, format="parquet").to_table()
    rows_by_id: dict[str, dict[str, Any]] = {}
    for row in sorted(table.to_pylist(), key=lambda row: row["epoch"]):
        rows_by_id[row.pop("_id")] = row
    return rows_by_id


def element(**fields: Any) -> dict[str, Any]:
    return {**dict.fromkeys("first"), **fields}
