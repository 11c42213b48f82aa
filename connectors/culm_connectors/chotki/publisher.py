"""Produces the packets and syncs of one connection to Kafka (reference 9.2, rules 3 and 4).

A connection's packets and syncs are produced in their order. Each names the entries that it builds on:
`brought` has, by source, the entry from the peer's handshake and its later changes. A sync is produced as its
fields, then the vectors of its blocks, and, once Kafka has acknowledged all of them, its commit.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from culm_connectors.chotki.spool import DiskSpool, IntakeQueue, WaitingPacket, WaitingSync
from culm_connectors.chotki.storage_limits import StorageLimits
from culm_connectors.chotki.warnings.gap_watch import GapWatch
from culm_connectors.edge.intake import Intake
from culm_connectors.edge.protocol_metrics import Durations
from culm_connectors.kafka import BatchProducer, ProducerRecord
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError, RecordTooLarge
from culm_models.chotki.ids import Id, vector_key
from culm_models.chotki.packets.live import LivePacket, read_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import check_value, parse_vector, write_vector
from culm_topics.chotki.records import (
    MAX_PACKET_BYTES,
    CommitRecord,
    OperandRecord,
    PacketRecord,
    RecordOrigin,
    block_partition,
    session_key,
    source_key,
    source_partition,
)
from culm_topics.kafka.clients import KafkaSettings

_BATCH_BYTES = 1024 * 1024
_Taken = list[WaitingPacket] | WaitingSync


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partition counts of the topics."""

    packets: int
    fields: int
    commits: int


class ReplicaPublisher:
    """Produces packets and syncs of one connection, in `run` until cancelled. Implements `IntakeOutbox`."""

    def __init__(
        self,
        producer: BatchProducer,
        kafka: KafkaSettings,
        partitions: Partitions,
        origin: RecordOrigin,
        queue: IntakeQueue,
        gaps: GapWatch,
        limits: StorageLimits,
        latency: Durations | None = None,
        compat: Compat = Compat.DEFAULT,
    ) -> None:
        self.origin = origin
        self.received_up_to: dict[int, int] = {}
        """Progress of the connection, by source."""
        self.gaps = gaps
        self._compat = compat
        self._producer = producer
        self._limits = limits
        self._kafka = kafka
        self._partitions = partitions
        self._queue = queue
        self._ends: dict[int, int] = {}
        self._intake = Intake(Durations() if latency is None else latency)
        self._intake.add(self)

    @property
    def waiting(self) -> int:
        """Number of packets and syncs that Kafka has not acknowledged."""
        return self._queue.count

    @property
    def waiting_bytes(self) -> int:
        """Their size in bytes."""
        return self._queue.bytes

    def waiting_s(self) -> float:
        """Return how long the oldest of them has waited, in seconds."""
        return self._queue.age_ms(_now_ms()) / 1000

    async def until_empty(self) -> None:
        """Wait until Kafka has acknowledged everything."""
        await self._intake.wait_until(lambda: not self.waiting_bytes)

    def announced(self, vector: Mapping[int, int]) -> None:
        """Raise the progress to a vector that the connection will have reached, such as the handshake's."""
        self._raise(vector)

    def packet(self, live: LivePacket) -> None:
        """Queue a live packet. The record's `after` is the connection's earlier progress in the source.

        Raises `RecordTooLarge` if it does not fit into a record of Kafka, `SpoolFull` if no more can wait.
        """
        if len(live.record) > MAX_PACKET_BYTES:
            raise RecordTooLarge(
                f"a packet of {len(live.record)} bytes, where {MAX_PACKET_BYTES} is the most"
            )
        src = live.id.src
        compat = self._compat_of(lambda: read_live(parse(live.record), live.record))
        value = PacketRecord(self.origin, self.received_up_to.get(src, 0), live.record, compat).encode()
        packet = WaitingPacket(src, live.entry.pro if live.counts else None, value)
        self._queue.put_packet(packet, _now_ms())
        if live.counts:
            self._raise({src: live.entry.pro})
        self._intake.wake()

    def sync(
        self,
        t: Id,
        spool: DiskSpool,
        vectors: list[tuple[Id, bytes]],
        vector: Mapping[int, int],
        after: Mapping[int, int],
    ) -> None:
        """Queue a whole sync. Its commit has the entries of `vector` beyond `after`. Raises `SpoolFull`."""
        beyond = {src: pro for src, pro in vector.items() if pro > after.get(src, -1)}
        base = {src: after[src] for src in beyond if src in after}
        self._queue.put_sync(
            WaitingSync(t, spool, vectors, write_vector(beyond), write_vector(base)), _now_ms()
        )
        self._raise(vector)
        self._intake.wake()

    async def run(self) -> None:
        """Produce queued packets and syncs in order. After an error the connection cannot be used any more.

        Raises `ProduceFailed`, and `RecordTooLarge` for a sync that cannot be stored; nothing of such a sync
        is produced.
        """
        await self._intake.run()

    async def take(self) -> _Taken | None:
        """Return the next packets, or the next sync."""
        return self._queue.take()

    async def produce(self, batch: _Taken) -> _Taken:
        """Produce packets, or a sync, and close the spool of the sync."""
        if isinstance(batch, WaitingSync):
            try:
                await self._produce_sync(batch)
            finally:
                batch.spool.close()
        else:
            await self._produce_packets(batch)
        return batch

    async def acknowledged(self, batch: _Taken) -> Sequence[float]:
        """Remove the acknowledged batch. Returns how long its items have waited, in seconds."""
        return self._queue.done(_now_ms())

    def close(self) -> None:
        """Discard everything that was not produced; the peer sends it again."""
        self._queue.close()

    def _raise(self, entries: Mapping[int, int]) -> None:
        for src, pro in entries.items():
            self.received_up_to[src] = max(pro, self.received_up_to.get(src, 0))

    async def _produce_packets(self, packets: Iterable[WaitingPacket]) -> None:
        by_partition: dict[int, list[ProducerRecord]] = defaultdict(list)
        entries: dict[int, dict[int, int]] = defaultdict(dict)
        for packet in packets:
            partition = source_partition(packet.src, self._partitions.packets)
            by_partition[partition].append(ProducerRecord(key=source_key(packet.src), value=packet.record))
            if packet.pro is not None:
                entries[partition][packet.src] = max(packet.pro, entries[partition].get(packet.src, 0))
        for partition, end in (await self._send("chotki.packets", by_partition)).items():
            self.gaps.packets(entries[partition], partition, end)

    async def _produce_sync(self, sync: WaitingSync) -> None:
        spool = sync.spool
        await asyncio.to_thread(self._limits.check_sync, spool.sizes, spool.fields(), sync.vectors)
        await self._produce_operands(sync.spool.fields())
        vectors = sync.vectors
        if self._compat is Compat.GO:
            # Entries that a strict reader would refuse are read as the Go replica reads them.
            vectors = [(block, write_vector(parse_vector(vector))) for block, vector in vectors]
        await self._produce_operands((vector_key(block), vector) for block, vector in vectors)
        record = CommitRecord(self.origin, sync.t, sync.vector, sync.after, tuple(sorted(self._ends.items())))
        key = session_key(self.origin.edge, self.origin.session)
        partition = self.origin.session % self._partitions.commits
        ends = await self._send(
            "chotki.commits", {partition: [ProducerRecord(key=key, value=record.encode())]}
        )
        self.gaps.commit(parse_vector(sync.vector), partition, ends[partition])

    async def _produce_operands(self, operands: Iterable[tuple[bytes, bytes]]) -> None:
        by_partition: dict[int, list[ProducerRecord]] = defaultdict(list)
        size = 0
        for key, operand in operands:
            partition = block_partition(key, self._partitions.fields)
            compat = self._compat_of(partial(check_value, chr(key[17]), operand))
            for record in OperandRecord.of(self.origin, operand, compat):
                by_partition[partition].append(ProducerRecord(key=key, value=record.encode()))
            size += len(operand) + len(key)
            if size >= _BATCH_BYTES:
                await self._send_fields(by_partition)
                by_partition.clear()
                size = 0
        await self._send_fields(by_partition)

    def _compat_of(self, check: Callable[[], object]) -> Compat:
        """Return how the job has to read a value: by the default rules, unless they would refuse it."""
        if self._compat is Compat.GO:
            try:
                check()
            except ChotkiError:
                return Compat.GO
        return Compat.DEFAULT

    async def _send_fields(self, by_partition: Mapping[int, list[ProducerRecord]]) -> None:
        self._ends.update(await self._send("chotki.fields", by_partition))

    async def _send(self, name: str, by_partition: Mapping[int, list[ProducerRecord]]) -> dict[int, int]:
        """Produce records to their partitions. Returns the offset after the last one, by partition."""
        partitions = list(by_partition)
        ends = await asyncio.gather(
            *(
                self._producer.send(self._kafka.topic(name), by_partition[partition], partition)
                for partition in partitions
            )
        )
        return dict(zip(partitions, ends, strict=True))


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
