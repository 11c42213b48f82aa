"""From an edge's outbox to the topics: nodes and publishes in batches, and shards beside them, one by one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.edge.progress import OutboxProgress
from culm_connectors.dag.edge.room import EdgeRoom
from culm_connectors.dag.edge.tables import OutboxItem, OutboxKind
from culm_connectors.edge.protocol_metrics import Durations
from culm_connectors.kafka import BatchProducer, ProducerRecord
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
_BATCH_ITEMS: Final = 500
_CHUNKS_AT_ONCE: Final = 4
_Produce = Callable[[list[OutboxItem]], Awaitable[list[OutboxItem]]]
"""Returns those that Kafka has."""


@dataclass(frozen=True, slots=True)
class DagPartitions:
    """How many partitions the topics have whose producers name them."""

    nodes: int
    shards: int


@dataclass(slots=True)
class _Batch:
    """Records of some items: by topic and partition, None where the key's hash chooses it."""

    items: list[OutboxItem]
    records: dict[tuple[str, int | None], list[ProducerRecord]]


class DagPublisher:
    """Produces what waits in the outbox of one room; `run` does so until cancelled."""

    def __init__(
        self,
        room: EdgeRoom,
        producer: BatchProducer,
        kafka: KafkaSettings,
        partitions: DagPartitions,
        latency: Durations,
    ) -> None:
        self._room = room
        self._producer = producer
        self._kafka = kafka
        self._partitions = partitions
        self._latency = latency
        self._progress: OutboxProgress = room.progress

    async def run(self) -> None:
        """Produce what is due. Raises ProduceFailed."""
        async with asyncio.TaskGroup() as group:
            nodes = (OutboxKind.NODE, OutboxKind.PUBLISH)
            group.create_task(self._turns(nodes, _BATCH_ITEMS, self._produce_nodes))
            group.create_task(self._turns((OutboxKind.SHARD,), 1, self._produce_shards))

    async def _turns(self, kinds: Sequence[OutboxKind], most: int, produce: _Produce) -> None:
        due = self._progress.due()
        while True:
            await due.wait()
            due.clear()
            while items := await self._room.work(lambda _: self._room.folder.tables.first(kinds, most)):
                await self._acknowledged(await produce(items))

    async def _acknowledged(self, items: Sequence[OutboxItem]) -> None:
        numbers = [item.number for item in items]
        for waited_s in await self._room.work(lambda _: self._room.folder.acknowledged(numbers)):
            self._latency.observe(waited_s)
        await self._progress.notify()

    async def _produce_nodes(self, items: list[OutboxItem]) -> list[OutboxItem]:
        """Produce the first of some nodes and publishes; those that are done."""
        batch = await self._room.work(lambda _: self._batch(items))
        await asyncio.gather(
            *(
                self._producer.send(topic, records, partition)
                for (topic, partition), records in batch.records.items()
            )
        )
        return batch.items

    def _batch(self, items: Sequence[OutboxItem]) -> _Batch:
        batch = _Batch([], defaultdict(list))
        size = 0
        for item in items:
            block = self._room.folder.read_node(item.cid)
            batch.items.append(item)
            if block is None:
                continue  # it fell with what it builds on: it is refused, and nobody is promised it
            if item.what is OutboxKind.PUBLISH:
                place, record = self._publish(item, block)
            else:
                place, record = self._node(item, block)
            batch.records[place].append(record)
            size += record.size_bytes
            if size >= _BATCH_BYTES:
                break
        return batch

    def _node(self, item: OutboxItem, block: bytes) -> tuple[tuple[str, int | None], ProducerRecord]:
        partition = cid_partition(item.cid, self._partitions.nodes)
        key, value = node_key(item.space, item.cid), NodeRecord(block, item.peer).encode()
        return (self._kafka.topic("dag.nodes"), partition), ProducerRecord(key, value)

    def _publish(self, item: OutboxItem, block: bytes) -> tuple[tuple[str, int | None], ProducerRecord]:
        verdict = self._room.verdict
        node = decode_node(block, legacy=verdict.legacy, bounds=verdict.bounds)
        record = PublishRecord(item.cid, node.prior, block, item.received_at, item.peer)
        return (self._kafka.topic("dag.publishes"), None), ProducerRecord(item.space, record.encode())

    async def _produce_shards(self, items: list[OutboxItem]) -> list[OutboxItem]:
        for item in items:
            size = await self._room.shard_size(item.cid) or 0
            starts = range(0, size, CHUNK_SIZE)
            for first in range(0, len(starts), _CHUNKS_AT_ONCE):
                some = starts[first : first + _CHUNKS_AT_ONCE]
                await asyncio.gather(*(self._produce_chunk(item, size, offset) for offset in some))
        return items

    async def _produce_chunk(self, item: OutboxItem, size: int, offset: int) -> None:
        length = min(CHUNK_SIZE, size - offset)
        data = await self._room.read_shard(item.cid, offset, length)
        if len(data) != length:
            return  # dropped meanwhile
        value = ShardChunkRecord(size, data, item.space, item.peer).encode()
        record = ProducerRecord(shard_chunk_key(item.cid, offset), value)
        partition = cid_partition(item.cid, self._partitions.shards)
        await self._producer.send(self._kafka.topic("dag.shards"), [record], partition)
