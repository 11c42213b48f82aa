"""The topics in memory: what is appended stays, readers wait for what comes, producers can be killed."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from culm_connectors.kafka import ProduceFailed, ProducerRecord
from culm_streaming.chotki.rows import TOPICS
from culm_topics.readers.batch import Batch, Partition
from tests.support.chotki.job import ChotkiTopics
from tests.support.chotki.pipeline.faults import Fault, Writes

PREFIX = "culm."
_INPUTS = {name: source for source, name in TOPICS.items()}
_FAULTLESS = {"chotki.sessions", "chotki.sources", "chotki.vectors", "rejected"}
_BATCH = 7
_STALL_S = 20.0


@dataclass(frozen=True, slots=True)
class MemoryMessage:
    """What is read of a `confluent_kafka.Message`."""

    place: tuple[str, int, int]
    record: tuple[bytes, bytes | None]

    def topic(self) -> str:
        return PREFIX + self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def key(self) -> bytes:
        return self.record[0]

    def value(self) -> bytes | None:
        return self.record[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, int(time.time() * 1000)

    def error(self) -> None:
        return None


class MemoryTopics:
    """All topics. Those that the job reads are its `inputs`."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.inputs = ChotkiTopics(partitions)
        self._others: dict[tuple[str, int], list[tuple[bytes, bytes | None]]] = defaultdict(list)
        self._written = asyncio.Event()

    def log(self, name: str, partition: int) -> Sequence[tuple[bytes, bytes | None]]:
        """All records of a partition."""
        if name in _INPUTS:
            return self.inputs.records[_INPUTS[name], partition]
        return self._others[name, partition]

    def append(self, name: str, partition: int, key: bytes, value: bytes | None) -> int:
        """One record; the offset behind it."""
        if name in _INPUTS:
            assert value is not None, "inputs have no tombstones"
            self.inputs.records[_INPUTS[name], partition].append((key, value))
        else:
            self._others[name, partition].append((key, value))
        self._written.set()
        return len(self.log(name, partition))

    async def until_written(self) -> None:
        """Wait for anything new anywhere."""
        self._written.clear()
        await self._written.wait()

    @asynccontextmanager
    async def open(
        self, name: str, offsets: Mapping[Partition, int] | None = None, *, skip_lost: bool = False
    ) -> AsyncIterator[MemoryReader]:
        """As `TopicReaders.open`."""
        yield MemoryReader(self, name, offsets or {})

    def topic(self, name: str) -> str:
        """As `TopicReaders.topic`."""
        return PREFIX + name


class MemoryReader:
    """As `TopicReader`: a few records at a time, partition by partition in turn."""

    def __init__(self, topics: MemoryTopics, name: str, offsets: Mapping[Partition, int]) -> None:
        self.topic = PREFIX + name
        self.taken_at_s: float | None = None
        self._topics = topics
        self._name = name
        self.ends = {
            (self.topic, number): len(topics.log(name, number)) for number in range(topics.partitions)
        }
        self.positions = {topic_partition: offsets.get(topic_partition, 0) for topic_partition in self.ends}
        self._at_end: set[Partition] = set()
        """Partitions of which it was said that there is nothing more."""

    async def get(self) -> Batch:
        while True:
            for topic_partition, position in self.positions.items():
                if (
                    position == len(self._topics.log(self._name, topic_partition[1]))
                    and topic_partition not in self._at_end
                ):
                    self._at_end.add(topic_partition)
                    return Batch((), {topic_partition: position})
                records = self._topics.log(self._name, topic_partition[1])[position : position + _BATCH]
                if records:
                    self._at_end.discard(topic_partition)
                    messages = tuple(
                        MemoryMessage((self._name, topic_partition[1], position + row), record)
                        for row, record in enumerate(records)
                    )
                    end = position + len(records)
                    # Next time another partition comes first.
                    del self.positions[topic_partition]
                    self.positions[topic_partition] = end
                    return Batch(messages, {topic_partition: end})  # type: ignore[arg-type]
            await self._topics.until_written()

    async def read_to_end(self) -> AsyncIterator[Batch]:
        while any(self.positions[topic_partition] < end for topic_partition, end in self.ends.items()):
            yield await self.get()


class MemoryProducer:
    """As `BatchProducer`, of one run of an edge: once it is dead nothing more is appended."""

    def __init__(self, topics: MemoryTopics, writes: Writes, who: str) -> None:
        self.killed = asyncio.Event()
        self._topics = topics
        self._writes = writes
        self._who = who

    async def send(self, topic: str, records: Sequence[ProducerRecord], partition: int | None = None) -> int:
        """Append record by record; others write in between."""
        name = topic.removeprefix(PREFIX)
        number = 0 if partition is None else partition
        end, refused = 0, False
        for record in records:
            await self.turn()
            fault = None if name in _FAULTLESS else self._writes.next(self._who, name)
            if fault is Fault.FAIL:
                refused = True
                continue
            if fault is Fault.STALL:
                await asyncio.sleep(_STALL_S)
            elif fault is not None:
                await self.die()
            assert record["value"] is not None, "nothing is removed"
            end = self._topics.append(name, number, record["key"], record["value"])
        await self.turn()
        if refused:
            raise ProduceFailed("Kafka refused a record")
        return end

    async def turn(self) -> None:
        """Let others go first; for ever where this one is dead."""
        await asyncio.sleep(0)
        if self.killed.is_set():
            await asyncio.Event().wait()

    async def die(self) -> None:
        """Nothing comes behind this."""
        self.killed.set()
        await asyncio.Event().wait()
