"""Outboxes of an edge's folder: one for nodes and publishes, in batches, and one for shards, one by one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from culm_connectors.dag.edge.service import EdgeDagService
from culm_connectors.dag.edge.tables import OutboxItem, OutboxKind
from culm_connectors.kafka import BatchProducer, ProducerRecord, record_size
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_topics.dag.records import (
    NodeRecord,
    PublishRecord,
    ShardChunkRecord,
    cid_partition,
    node_key,
    shard_chunk_key,
)
from culm_topics.kafka.clients import KafkaSettings

_BATCH_BYTES: Final = 4 * 1_048_576
_CHUNKS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class DagPartitions:
    """Partition counts of the topics whose producers choose the partition."""

    nodes: int
    shards: int


@dataclass(slots=True)
class _Batch:
    """Records of some items, by topic and partition; partition None: the key's hash chooses it."""

    items: list[OutboxItem]
    records: dict[tuple[str, int | None], list[ProducerRecord]]


class _DagOutbox:
    """Outbox of one service for items of certain kinds."""

    kinds: ClassVar[Sequence[OutboxKind]]
    max_items: ClassVar[int]

    def __init__(
        self,
        service: EdgeDagService,
        producer: BatchProducer,
        kafka: KafkaSettings,
        partitions: DagPartitions,
    ) -> None:
        self._service = service
        self._producer = producer
        self._kafka = kafka
        self._partitions = partitions

    async def take(self) -> list[OutboxItem] | None:
        """Return the items that have waited longest, or None if there are none."""
        tables = self._service.folder.tables
        return await self._service.work(lambda _: tables.first(self.kinds, self.max_items)) or None

    async def acknowledged(self, batch: list[OutboxItem]) -> Sequence[float]:
        """Remove items that Kafka has acknowledged; returns how long each has waited, in seconds."""
        numbers = [item.number for item in batch]
        return await self._service.work(lambda _: self._service.folder.acknowledged(numbers))


class NodeOutbox(_DagOutbox):
    """Outbox of nodes and publishes, produced in batches."""

    kinds = (OutboxKind.NODE, OutboxKind.PUBLISH)
    max_items = 500

    async def produce(self, batch: list[OutboxItem]) -> list[OutboxItem]:
        """Produce items from the start of a batch, up to a size limit; returns those that were produced."""
        taken = await self._service.work(lambda _: self._batch(batch))
        await asyncio.gather(
            *(
                self._producer.send(topic, records, partition)
                for (topic, partition), records in taken.records.items()
            )
        )
        return taken.items

    def _batch(self, items: Sequence[OutboxItem]) -> _Batch:
        batch = _Batch([], defaultdict(list))
        size = 0
        for item in items:
            block = self._service.folder.read_node(item.cid)
            batch.items.append(item)
            if block is None:
                continue  # dropped with a node that it builds on; nobody got an acknowledgement
            if item.what is OutboxKind.PUBLISH:
                destination, record = self._publish(item, block)
            else:
                destination, record = self._node(item, block)
            batch.records[destination].append(record)
            size += record_size(record)
            if size >= _BATCH_BYTES:
                break
        return batch

    def _node(self, item: OutboxItem, block: bytes) -> tuple[tuple[str, int | None], ProducerRecord]:
        partition = cid_partition(item.cid, self._partitions.nodes)
        key, value = node_key(item.space, item.cid), NodeRecord(block, item.peer).encode()
        return (self._kafka.topic("dag.nodes"), partition), ProducerRecord(key=key, value=value)

    def _publish(self, item: OutboxItem, block: bytes) -> tuple[tuple[str, int | None], ProducerRecord]:
        verdict = self._service.verdict
        node = decode_node(block, legacy=verdict.legacy, bounds=verdict.bounds)
        record = PublishRecord(item.cid, node.prior, block, item.received_at, item.peer)
        return (self._kafka.topic("dag.publishes"), None), ProducerRecord(
            key=item.space, value=record.encode()
        )


class ShardOutbox(_DagOutbox):
    """Outbox of shards, produced one after another in chunks."""

    kinds = (OutboxKind.SHARD,)
    max_items = 1

    async def produce(self, batch: list[OutboxItem]) -> list[OutboxItem]:
        """Produce all chunks of the shards in a batch; returns the batch."""
        for item in batch:
            size = await self._service.shard_size(item.cid) or 0
            starts = range(0, size, CHUNK_SIZE)
            for first in range(0, len(starts), _CHUNKS_AT_ONCE):
                offsets = starts[first : first + _CHUNKS_AT_ONCE]
                await asyncio.gather(*(self._produce_chunk(item, size, offset) for offset in offsets))
        return batch

    async def _produce_chunk(self, item: OutboxItem, size: int, offset: int) -> None:
        length = min(CHUNK_SIZE, size - offset)
        data = await self._service.read_shard(item.cid, offset, length)
        if len(data) != length:
            return  # dropped meanwhile
        value = ShardChunkRecord(size, data, item.space, item.peer).encode()
        record = ProducerRecord(key=shard_chunk_key(item.cid, offset), value=value)
        partition = cid_partition(item.cid, self._partitions.shards)
        await self._producer.send(self._kafka.topic("dag.shards"), [record], partition)
