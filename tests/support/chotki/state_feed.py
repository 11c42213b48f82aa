"""`chotki.state` in memory, as the job writes it and Kafka compacts it, and a reader that is fed from it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from culm_streaming.chotki.output_records import OutputTopic, StagedRecord
from culm_topics.readers.batch import Batch, Partition

NAME = "culm.chotki.state"


@dataclass(frozen=True)
class FedMessage:
    """What is read of a `confluent_kafka.Message`."""

    at: tuple[int, int]
    record: tuple[bytes | None, bytes | None]
    time_ms: int

    def topic(self) -> str:
        return NAME

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def key(self) -> bytes | None:
        return self.record[0]

    def value(self) -> bytes | None:
        return self.record[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms


class FedTopic:
    """The topic's records; what reads it takes partitions in any order, a few records at a time."""

    def __init__(self, partitions: int = 3, seed: int = 0) -> None:
        self.ends = [0] * partitions
        self.idle = asyncio.Event()
        """Set while a reader waits for records that nobody has written."""
        self.opened = 0
        self._records: list[list[FedMessage]] = [[] for _ in range(partitions)]
        self._written = asyncio.Event()
        self._chance = random.Random(seed)

    def write(self, partition: int, key: bytes | None, value: bytes | None, age_s: float = 0.0) -> None:
        """One record behind all others."""
        time_ms = int((time.time() - age_s) * 1_000)
        at = (partition, self.ends[partition])
        self._records[partition].append(FedMessage(at, (key, value), time_ms))
        self.ends[partition] += 1
        self.idle.clear()
        self._written.set()

    def take(self, records: Iterable[StagedRecord]) -> None:
        """What the job wrote."""
        for record in records:
            if record.topic is OutputTopic.STATE:
                assert record.partition is not None
                self.write(record.partition, record.key, record.value)

    def skip(self) -> None:
        """An offset in every partition that no reader ever sees, as a transaction's end."""
        self.ends = [end + 1 for end in self.ends]

    def compact(self) -> None:
        """Of each key only the last record stays."""
        for number, records in enumerate(self._records):
            last = {record.key(): record for record in records}
            self._records[number] = [record for record in records if last[record.key()] is record]

    def topic(self, name: str) -> str:
        return f"culm.{name}"

    @asynccontextmanager
    async def open(
        self, name: str, offsets: Mapping[Partition, int] | None = None, *, skip_lost: bool = False
    ) -> AsyncIterator[FedReader]:
        assert self.topic(name) == NAME
        self.opened += 1
        yield FedReader(self, dict(offsets or {}))

    def next_batch(self, positions: Mapping[Partition, int]) -> Batch | None:
        """Some records beyond these positions, None where there are none."""
        behind = [number for number, end in enumerate(self.ends) if positions[NAME, number] < end]
        if not behind:
            return None
        number = self._chance.choice(behind)
        unread = [record for record in self._records[number] if record.offset() >= positions[NAME, number]]
        taken: list[Any] = unread[: self._chance.choice((1, 2, 5, 50))]
        at = taken[-1].offset() + 1 if taken else self.ends[number]
        return Batch(tuple(taken), {(NAME, number): at})

    async def wait(self) -> None:
        """Until something is written."""
        self._written.clear()
        self.idle.set()
        await self._written.wait()


class FedReader:
    """Reads a `FedTopic`."""

    def __init__(self, topic: FedTopic, offsets: Mapping[Partition, int]) -> None:
        self.ends = {(NAME, number): end for number, end in enumerate(topic.ends)}
        self.positions = {topic_partition: offsets.get(topic_partition, 0) for topic_partition in self.ends}
        self._topic = topic

    async def get(self) -> Batch:
        while (batch := self._topic.next_batch(self.positions)) is None:
            await self._topic.wait()
        self.positions.update(batch.offsets)
        return batch

    async def read_to_end(self) -> AsyncIterator[Batch]:
        while any(self.positions[topic_partition] < end for topic_partition, end in self.ends.items()):
            yield await self.get()
