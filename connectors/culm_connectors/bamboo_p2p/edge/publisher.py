"""From an edge's outbox to the topics: a turn at a time, and what Kafka has acknowledged waits no more."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from culm_connectors.bamboo_p2p.edge.outbox import DuePublication, KafkaOutbox
from culm_connectors.bamboo_p2p.edge.refusals import RefusalReports
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.edge.protocol_metrics import Durations
from culm_connectors.kafka import BatchProducer, ProducerRecord
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    PayloadChunkRecord,
    fragment_partition,
    payload_chunk_key,
    payload_partition,
)


@dataclass(frozen=True, slots=True)
class SparsePartitions:
    """How many partitions the topics have whose producers name them."""

    fragments: int
    payloads: int


class OutboxProgress:
    """Who waits for an outbox: its publisher until something is due, connections for acknowledgements."""

    def __init__(self) -> None:
        self._due = asyncio.Event()
        # At the start it is looked what was left over.
        self._due.set()
        self._changed = asyncio.Condition()
        self._is_idle = False

    def wake(self) -> None:
        """There may be something to publish."""
        self._is_idle = False
        self._due.set()

    async def until_due(self) -> None:
        """Wait until there may be something to publish."""
        await self._due.wait()
        self._due.clear()

    async def idle(self) -> None:
        """All that was due is in Kafka."""
        self._is_idle = not self._due.is_set()
        await self.notify()

    async def notify(self) -> None:
        """What somebody waits for may be true now."""
        async with self._changed:
            self._changed.notify_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until that holds; it is looked at whenever Kafka has acknowledged something."""
        async with self._changed:
            await self._changed.wait_for(holds)

    async def until_idle(self) -> None:
        """Wait until everything that is due is in Kafka."""
        await self.until(lambda: self._is_idle)


class OutboxPublisher:
    """Produces what is due of one folder's outbox; `run` does so until cancelled."""

    def __init__(
        self,
        peer: BambooPeer,
        outbox: KafkaOutbox,
        producer: BatchProducer,
        kafka: KafkaSettings,
        partitions: SparsePartitions,
        refusals: RefusalReports,
        progress: OutboxProgress,
        latency: Durations,
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._producer = producer
        self._kafka = kafka
        self._partitions = partitions
        self._refusals = refusals
        self._latency = latency
        self._progress = progress

    async def release_now_and_then(self, interval_s: float = 1.0) -> None:
        """Let go what has waited for its payload for too long, for ever."""
        while True:
            await asyncio.sleep(interval_s)
            await self._peer.work(lambda _: self._outbox.release_overdue())
            if self._outbox.is_due:
                self._progress.wake()

    async def run(self) -> None:
        """Produce what is due. Raises ProduceFailed."""
        while True:
            await self._progress.until_due()
            while due := await self._peer.work(lambda _: self._outbox.take()):
                await self._produce(due)
            await self._progress.idle()

    async def _produce(self, due: DuePublication) -> None:
        for refused in due.refused:
            self._refusals.operation(refused)
        fragments: dict[int, list[ProducerRecord]] = defaultdict(list)
        for key, record in due.fragments:
            fragments[fragment_partition(key, self._partitions.fragments)].append(record)
        await asyncio.gather(
            self._producer.send(self._kafka.topic("entries"), due.entries),
            *(
                self._producer.send(self._kafka.topic("fragments"), records, partition)
                for partition, records in fragments.items()
            ),
            self._produce_payloads(due.payloads),
        )
        waited = await self._peer.work(lambda _: self._outbox.acknowledged(due))
        for waited_s in waited:
            self._latency.observe(waited_s)
        await self._progress.notify()

    async def _produce_payloads(self, payloads: Sequence[tuple[bytes, LogKey, int, int]]) -> None:
        for payload_hash, log, seq_num, size in payloads:
            partition = payload_partition(payload_hash, self._partitions.payloads)
            for offset in range(0, size, PAYLOAD_CHUNK_BYTES):
                length = min(PAYLOAD_CHUNK_BYTES, size - offset)
                data = await self._read(log, seq_num, offset, length)
                if len(data) != length:
                    break  # dropped meanwhile: its owner wants it no more
                record = PayloadChunkRecord(size, offset, data)
                key = payload_chunk_key(payload_hash, record.index)
                produced = [ProducerRecord(key, record.encode())]
                await self._producer.send(self._kafka.topic("payloads"), produced, partition)

    async def _read(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        return await self._peer.read(lambda store: store.read_payload(log, seq_num, offset, length))
