"""The job `dag` without Spark: records go through its stages as in a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules
from culm_streaming.dag.packing import (
    SHARDS,
    Packing,
    pack_blocked,
    pack_nodes,
    pack_publishes,
    pack_shards,
)
from culm_streaming.dag.rows import ChunkRows, ReplicaRows
from culm_streaming.dag.settings import DagLayout
from culm_streaming.dag.shards import shards_step
from culm_streaming.dag.step import CachedReplicas, step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.dag.orders import KnownOrder
from culm_topics.dag.records import OrderRecord

_PACK = {
    "dag.nodes": pack_nodes,
    "dag.publishes": pack_publishes,
    "dag.shards": pack_shards,
    "dag.blocked": pack_blocked,
}


class Sent(NamedTuple):
    """A record of a source."""

    topic: str
    key: bytes
    value: bytes | None


class DagWorld:
    """One job and what it has written: the last value of each key, orders, and what was refused."""

    def __init__(self, settings: ValidationRules = DEFAULT_RULES) -> None:
        self.layout = DagLayout(shards=3, batch_bytes=2_000)
        self.settings = settings
        self.shards: dict[int, MemoryState] = {}
        self.replicas = MemoryState()
        self.remembered = CachedReplicas()
        self.written: dict[tuple[str, bytes], bytes] = {}
        self.orders: dict[bytes, KnownOrder] = {}
        self.refused: list[tuple[bytes, bytes]] = []
        self._offset = 0

    def run(self, records: Iterable[Sent]) -> int:
        """A micro-batch; how many records it came to."""
        by_topic: dict[str, list[tuple[bytes | None, bytes | None, int, int]]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append((record.key, record.value, 0, self._offset))
            self._offset += 1
        chunks: dict[int, list[bytes]] = {}
        replica_blobs: list[bytes] = []
        for topic, topic_records in by_topic.items():
            for shard, stage, blob in _PACK[topic](topic_records, Packing(self.layout, self.settings, topic)):
                (chunks.setdefault(shard, []) if stage == SHARDS else replica_blobs).append(blob)
        for shard, blobs in chunks.items():
            store = self.shards.setdefault(shard, MemoryState())
            replica_blobs.append(shards_step(store, ChunkRows.unpack(blobs), self.settings).pack())
        outputs = step(
            self.replicas, ReplicaRows.unpack(replica_blobs), self.settings, self.layout, self.remembered
        )
        for topic, key, value, _ in outputs:
            if topic == "rejected":
                assert value is not None
                self.refused.append((key, value))
            elif topic == "dag.order":
                self.orders.setdefault(key, KnownOrder()).take(OrderRecord.decode(value))
            elif value is None:
                self.written.pop((topic, key), None)
            else:
                self.written[topic, key] = value
        return len(outputs)

    def forget(self) -> None:
        """The process that remembered something is another one now."""
        self.remembered = CachedReplicas()

    @property
    def picture(self) -> object:
        """All that a consumer sees in the end."""
        return self.written, {id: order.links for id, order in self.orders.items()}
