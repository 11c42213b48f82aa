"""Produces the outbox of an edge to the topics."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from culm_connectors.bamboo_p2p.edge.outbox import DuePublication, KafkaOutbox
from culm_connectors.bamboo_p2p.edge.reports import RefusalReports
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.edge.intake import Intake
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
    """Partition counts of the topics whose partitions the producer chooses."""

    fragments: int
    payloads: int


class OutboxPublisher:
    """Produces the due records of one folder, taken from `KafkaOutbox`. Implements `IntakeOutbox`."""

    def __init__(
        self,
        peer: BambooPeer,
        outbox: KafkaOutbox,
        producer: BatchProducer,
        kafka: KafkaSettings,
        partitions: SparsePartitions,
        refusals: RefusalReports,
        intake: Intake,
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._producer = producer
        self._kafka = kafka
        self._partitions = partitions
        self._refusals = refusals
        self._intake = intake

    async def release_now_and_then(self, interval_s: float = 1.0) -> None:
        """Regularly release entries that have waited for their payloads for too long, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self._peer.work(lambda _: self._outbox.release_overdue())
            if self._outbox.is_due:
                self._intake.wake()

    async def take(self) -> DuePublication | None:
        """Return the next due records, or None."""
        return await self._peer.work(lambda _: self._outbox.take()) or None

    async def produce(self, batch: DuePublication) -> DuePublication:
        """Produce all records of a batch, and report payloads that are not operations."""
        for refused in batch.refused:
            self._refusals.operation(refused)
        fragments: dict[int, list[ProducerRecord]] = defaultdict(list)
        for key, record in batch.fragments:
            fragments[fragment_partition(key, self._partitions.fragments)].append(record)
        await asyncio.gather(
            self._producer.send(self._kafka.topic("entries"), batch.entries),
            *(
                self._producer.send(self._kafka.topic("fragments"), records, partition)
                for partition, records in fragments.items()
            ),
            self._produce_payloads(batch.payloads),
        )
        return batch

    async def acknowledged(self, batch: DuePublication) -> Sequence[float]:
        """Remove an acknowledged batch from the outbox. Returns how long its rows have waited, in seconds."""
        return await self._peer.work(lambda _: self._outbox.acknowledged(batch))

    async def _produce_payloads(self, payloads: Sequence[tuple[bytes, LogKey, int, int]]) -> None:
        for payload_hash, log, seq_num, size in payloads:
            partition = payload_partition(payload_hash, self._partitions.payloads)
            for offset in range(0, size, PAYLOAD_CHUNK_BYTES):
                length = min(PAYLOAD_CHUNK_BYTES, size - offset)
                data = await self._read(log, seq_num, offset, length)
                if len(data) != length:
                    break  # dropped meanwhile: its owner does not want it any more
                record = PayloadChunkRecord(size, offset, data)
                key = payload_chunk_key(payload_hash, record.index)
                produced = [ProducerRecord(key=key, value=record.encode())]
                await self._producer.send(self._kafka.topic("payloads"), produced, partition)

    async def _read(self, log: LogKey, seq_num: int, offset: int, length: int) -> bytes:
        return await self._peer.read(lambda store: store.read_payload(log, seq_num, offset, length))
