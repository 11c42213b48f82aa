"""Records that wait to be produced in batches, bounded in number and bytes; the excess is dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable

from culm_connectors.kafka.producer import BatchProducer, ProducerRecord, record_size


class Backlog:
    """Records in order; a newer one of the same key takes the older one's place.

    At most `max_records` wait, and keys and values of at most `max_bytes`.
    """

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._records: dict[Hashable, ProducerRecord] = {}
        self._number = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def fits(self, size_bytes: int) -> bool:
        """Return whether there is capacity for a record of this size."""
        return len(self._records) < self._max_records and self.size_bytes + size_bytes <= self._max_bytes

    def add(self, record: ProducerRecord, key: Hashable | None = None) -> bool:
        """Queue a record in place of one with the same `key`. Returns False if there is no capacity."""
        if key is None:
            self._number += 1
            key = self._number
        former = self._records.pop(key, None)
        if former is not None:
            self.size_bytes -= record_size(former)
        size_bytes = record_size(record)
        if not self.fits(size_bytes):
            return False
        self._records[key] = record
        self.size_bytes += size_bytes
        return True

    def take(self) -> list[ProducerRecord]:
        """Remove and return all queued records."""
        records = list(self._records.values())
        self._records.clear()
        self.size_bytes = 0
        return records


class BatchSender:
    """Produces waiting records a few times a second: one batch per topic, in the order of `add`.

    `dropped` counts records that did not fit while Kafka was slow.
    """

    def __init__(self, producer: BatchProducer) -> None:
        self.dropped: Counter[str] = Counter()
        self.producer = producer
        self._sources: list[tuple[str, Callable[[], list[ProducerRecord]]]] = []

    def add(self, topic: str, take: Callable[[], list[ProducerRecord]]) -> None:
        """Register a topic with the function that returns the records to produce to it."""
        self._sources.append((topic, take))

    async def send_for_ever(self, interval_s: float = 0.1) -> None:
        """Produce waiting records every `interval_s` seconds until cancelled; run it as a task."""
        while True:
            await self.send()
            await asyncio.sleep(interval_s)

    async def send(self) -> None:
        """Produce waiting records. On cancellation, the records of topics not yet reached stay queued."""
        for topic, take in self._sources:
            await self.producer.send(topic, take())
