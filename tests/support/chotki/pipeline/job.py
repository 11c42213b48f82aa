"""The job `chotki` on topics in memory, as Spark runs it: what a micro-batch takes is settled before it runs,
and it runs again, with the state of before, until its checkpoint is written."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping

from culm_streaming.chotki.output_records import StagedRecord
from culm_streaming.chotki.rows import InputTopic
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_topics.chotki.state_reader import EpochStaging
from culm_topics.readers.batch import TopicMessage
from tests.support.chotki.job import ChotkiJob, Place
from tests.support.chotki.pipeline.faults import Fault, Writes
from tests.support.chotki.pipeline.topics import MemoryTopics

_INTERVAL_S = 0.05
_PAUSE_S = 0.5
_STALL_S = 20.0


class MemoryJob:
    """`live` is its whole life: killed, it goes on from its checkpoint, or from `chotki.state`."""

    def __init__(self, topics: MemoryTopics, writes: Writes, seed: int) -> None:
        self.job = ChotkiJob(topics.inputs, ChotkiStateSettings(shards=topics.partitions))
        self._topics = topics
        self._writes = writes
        self._chance = random.Random(seed)
        self._staging = EpochStaging(topics.partitions)
        self._read = [0] * topics.partitions
        self._planned: tuple[dict[Place, int], int] | None = None
        self._written: list[StagedRecord] | None = None
        """What the micro-batch that is not finished came to when it first ran."""

    def values_of_epoch(self) -> dict[bytes, bytes]:
        """What a reader has that takes whole epochs: the fields and vectors of the last one."""
        for number, read in enumerate(self._read):
            log = self._topics.log("chotki.state", number)
            for offset in range(read, len(log)):
                key, value = log[offset]
                self._staging.take(TopicMessage(key, value or b"", number, offset, 0))
            self._read[number] = len(log)
        return self._staging.state.store()

    async def live(self) -> None:
        """Run for ever."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            if self._planned is None:
                self._planned = self._plan()
            if self._planned is None:
                continue
            before = self.job.checkpoint()
            fault = await self._batch(*self._planned)
            if fault is None:
                self._planned = self._written = None
                continue
            await asyncio.sleep(_PAUSE_S)
            if fault is Fault.LOSE:
                self._planned = self._written = None
                self.job.restore(
                    [self._topics.log("chotki.state", number) for number in range(self._topics.partitions)]
                )
            else:
                self.job.go_back_to(before)

    def _plan(self) -> tuple[dict[Place, int], int] | None:
        """How many records of each partition; None where there is nothing new."""
        offsets = self.job.checkpoint().offsets
        places = [(source, number) for source in InputTopic for number in range(self._topics.partitions)]
        new = {
            input_partition: len(self._topics.inputs.records[input_partition])
            - offsets.get(input_partition, 0)
            for input_partition in places
        }
        if not any(new.values()):
            return None
        # Partitions are read at different speeds.
        limits = {
            input_partition: self._chance.choice((0, 1, count, count))
            for input_partition, count in new.items()
            if count
        }
        if not any(limits.values()):
            limits = new
        return limits, int(time.time() * 1000)

    async def _batch(self, limits: Mapping[Place, int], batch_ms: int) -> Fault | None:
        records = self.job.step(limits, batch_ms)
        assert self._written in (None, records), "a micro-batch that is repeated writes the same"
        self._written = records
        for record in records:
            await asyncio.sleep(0)
            fault = self._writes.next("job", f"{record.topic} {record.stage.name}")
            if fault is Fault.STALL:
                await asyncio.sleep(_STALL_S)
            elif fault is not None:
                return fault
            self._topics.append(record.topic, record.partition or 0, record.key, record.value)
        fault = self._writes.next("job", "checkpoint")
        return None if fault is Fault.STALL else fault
