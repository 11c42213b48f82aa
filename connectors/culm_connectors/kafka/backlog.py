"""Records that wait to be produced in batches, bounded in number and bytes: what does not fit is dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from culm_connectors.kafka.producer import BatchProducer, ProducerRecord


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
        """Whether there is room for a record of this size."""
        return len(self._records) < self._max_records and self.size_bytes + size_bytes <= self._max_bytes

    def add(self, record: ProducerRecord, key: Hashable | None = None) -> bool:
        """Have a record wait, in the place of one of the same `key`; False when there is no room for it."""
        if key is None:
            self._number += 1
            key = self._number
        former = self._records.pop(key, None)
        if former is not None:
            self.size_bytes -= former.size_bytes
        if not self.fits(record.size_bytes):
            return False
        self._records[key] = record
        self.size_bytes += record.size_bytes
        return True

    def take(self) -> list[ProducerRecord]:
        """All that wait; they wait no more."""
        records = list(self._records.values())
        self._records.clear()
        self.size_bytes = 0
        return records


class BatchSender:
    """Produces what waits, a batch a topic, a few times a second; in the order in which topics were added.

    `dropped` counts records that did not fit while Kafka was slow.
    """

    def __init__(self, producer: BatchProducer) -> None:
        self.dropped: Counter[str] = Counter()
        self.producer = producer
        self._sources: list[tuple[str, Callable[[], Sequence[ProducerRecord]]]] = []

    def add(self, topic: str, take: Callable[[], Sequence[ProducerRecord]]) -> None:
        """Produce to a topic what `take` gives each time."""
        self._sources.append((topic, take))

    async def send_for_ever(self, interval_s: float = 0.1) -> None:
        """Produce what waits, again and again; run it as a task."""
        while True:
            await self.send()
            await asyncio.sleep(interval_s)

    async def send(self) -> None:
        """Produce what waits; what is not its turn yet when this is cancelled goes on waiting."""
        for topic, take in self._sources:
            await self.producer.send(topic, take())
