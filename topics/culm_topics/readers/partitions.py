"""Some partitions of a topic from given offsets on: the reader under the index, the store's and the events'.

Never jumps by itself: an offset that is not in the topic is an error, since what lies between was lost to
this reader.
"""

import time
import uuid
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, TopicPartition

from culm_topics.closing import Closing
from culm_topics.errors import KafkaFailure, OffsetOutOfRange, TopicMissing
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import BATCH_RECORDS, TopicMessage, fetch, source_of
from culm_topics.readers.broker_errors import ask
from culm_topics.readers.offsets import REQUEST_TIMEOUT_SECONDS, ask_leader, watermarks


class TopicPartitions(Closing):
    """A client that reads partitions of the catalogue topic `name` as it is told. Not for several threads.

    Opening asks for nothing; every method raises `TopicMissing`, and `KafkaFailure` where the broker fails.
    """

    def __init__(
        self, settings: KafkaSettings, name: str, *, defaults: Mapping[str, str] | None = None
    ) -> None:
        self.topic = settings.topic(name)
        # The group is only a name here: nothing is ever committed.
        self._client: Consumer = kafka.consumer(
            settings,
            group_id=f"{reader_group_prefix(settings)}{uuid.uuid4().hex}",
            defaults={"enable.partition.eof": "true", **(defaults or {})},
        )
        self.positions: dict[int, int] = {}
        """The next offset to read of each partition being read."""

    def count(self) -> int:
        """How many partitions the topic has."""
        known = ask(
            f"asking for the topic {self.topic}",
            REQUEST_TIMEOUT_SECONDS,
            lambda left_s: self._client.list_topics(self.topic, timeout=left_s),
        )
        found = known.topics.get(self.topic)
        if found is None or found.error is not None:
            raise TopicMissing(f"the topic {self.topic} does not exist: create it with `culm topics create`")
        return len(found.partitions)

    def range_of(self, partition: int) -> tuple[int, int]:
        """(first offset, offset after the last) now."""
        return watermarks(self._client, self.topic, partition)

    def starts(self) -> dict[int, int]:
        """Return the first offset of every partition of the topic."""
        return {partition: self.range_of(partition)[0] for partition in range(self.count())}

    def ends(self) -> dict[int, int]:
        """Return the offset after the last, now, of every partition that is read."""
        return {partition: self.range_of(partition)[1] for partition in self.positions}

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether every partition has been read to its end in `ends`."""
        return all(self.positions[partition] >= end for partition, end in ends.items())

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """The first offset whose record was taken at `timestamp_ms` or later; the end where there is none."""
        asked = [TopicPartition(self.topic, partition, timestamp_ms)]
        found = ask_leader(
            self._client,
            self.topic,
            f"asking for an offset of {self.topic} [{partition}] by its time",
            lambda attempt_s: self._client.offsets_for_times(asked, timeout=attempt_s),
        )[0]
        if found.error is not None:
            raise KafkaFailure(f"{self.topic} [{partition}]: {found.error}")
        return found.offset if found.offset >= 0 else self.range_of(partition)[1]

    def read_from(self, starts: Mapping[int, int]) -> dict[int, int]:
        """Read these partitions from these offsets on, and no others; returns where each ends now.

        `OffsetOutOfRange` for an offset that is no longer, or not yet, in the topic.
        """
        ends: dict[int, int] = {}
        for partition, start in starts.items():
            low, ends[partition] = self.range_of(partition)
            if not low <= start <= ends[partition]:
                raise OffsetOutOfRange(
                    f"{self.topic} [{partition}]: offset {start} is outside of {low} to {ends[partition]}"
                )
        self.assign(starts)
        return ends

    def assign(self, starts: Mapping[int, int]) -> None:
        """`read_from` for offsets that are known to be in the topic; none at all stops reading."""
        self.positions = dict(starts)
        self._client.assign([TopicPartition(self.topic, *place) for place in starts.items()])

    def poll(self, timeout_seconds: float, most: int = BATCH_RECORDS) -> list[TopicMessage]:
        """The next records, at most `most`, each partition in order; none when none come in time.

        Returns as soon as there is one, and with what has come besides. An empty list also when the end of a
        partition was reached: `positions` says how far it is.
        """
        batch = fetch(self._client, timeout_seconds, most)
        if batch is None:
            return []
        records = []
        for message in batch.messages:
            _, partition, offset = source_of(message)
            # After another assignment, what was fetched for the former one may still come.
            if offset >= self.positions.get(partition, offset + 1):
                records.append(
                    TopicMessage(
                        _bytes(message.key()),
                        _bytes(message.value()),
                        partition,
                        offset,
                        message.timestamp()[1],
                    )
                )
        for (_, partition), offset in batch.offsets.items():
            if partition in self.positions:
                self.positions[partition] = max(self.positions[partition], offset)
        return records

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def read_through(
    reader: TopicPartitions, ends: Mapping[int, int], silence_seconds: float, most: int = BATCH_RECORDS
) -> Iterator[list[TopicMessage]]:
    """All records up to `ends`, and what came with them from behind: for a caller that goes on reading later.

    `KafkaFailure` when nothing comes for `silence_seconds` although something should.
    """
    deadline_s = time.monotonic() + silence_seconds
    while not reader.has_reached(ends):
        if records := reader.poll(0.2, most):
            yield records
            deadline_s = time.monotonic() + silence_seconds
        elif time.monotonic() > deadline_s:
            raise KafkaFailure(f"the broker sent nothing of {reader.topic} for {silence_seconds:.0f} s")


def read_until(
    reader: TopicPartitions, ends: Mapping[int, int], silence_seconds: float, most: int = BATCH_RECORDS
) -> Iterator[TopicMessage]:
    """All records before `ends`. Raises as `read_through`."""
    for records in read_through(reader, ends, silence_seconds, most):
        yield from (record for record in records if record.offset < ends[record.partition])


def _bytes(data: bytes | str | None) -> bytes:
    return data.encode() if isinstance(data, str) else data or b""
