"""`chotki.state` as a log without Kafka: what the job wrote, partition by partition, and compacted."""

from __future__ import annotations

from collections.abc import Iterable

from culm_streaming.chotki.output_records import OutputTopic, StagedRecord
from culm_topics.chotki.state_reader import AppliedEpoch, EpochStaging
from culm_topics.readers.batch import TopicMessage


class StateLog:
    """The records of `chotki.state`; each partition has its offsets."""

    def __init__(self, partitions: int = 3) -> None:
        self.partitions: list[list[TopicMessage]] = [[] for _ in range(partitions)]
        self._ends = [0] * partitions

    def write(self, records: Iterable[StagedRecord]) -> None:
        """What a micro-batch wrote."""
        for record in records:
            if record.topic is OutputTopic.STATE:
                assert record.partition is not None
                offset = self._ends[record.partition]
                self._ends[record.partition] += 1
                self.partitions[record.partition].append(
                    TopicMessage(record.key, record.value or b"", record.partition, offset, 0)
                )

    def compact(self, *partitions: int) -> None:
        """Leave the last record of each key in these partitions."""
        for number in partitions:
            last = {record.key: record for record in self.partitions[number]}
            self.partitions[number] = sorted(last.values(), key=lambda record: record.offset)

    def read(self, staging: EpochStaging, order: Iterable[int] | None = None) -> list[AppliedEpoch]:
        """Give all records to a reader, by partition in this order."""
        numbers = range(len(self.partitions)) if order is None else order
        taken = (staging.take(record) for number in numbers for record in self.partitions[number])
        return [record for record in taken if record is not None]
