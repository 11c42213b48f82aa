"""Partitions: where they begin and end, some of them from given offsets on, and all of a topic as it stands.

`TopicPartitions` never jumps by itself: an offset that is not in the topic is an error, since what lies
between was lost to this reader. Reading a topic whole is for the small, mostly compacted ones that operators
and tools look at (`version-vectors`, `rejected`, `announcements`). Programs that consume the replicated logs
use `LogConsumer`.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from culm_topics.closing import Closing
from culm_topics.errors import KafkaFailure, OffsetOutOfRange, TopicMissing
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import BATCH_RECORDS, TopicMessage, fetch, source_of
from culm_topics.readers.broker_errors import ask

REQUEST_TIMEOUT_SECONDS = 30.0
_ATTEMPT_SECONDS = 5.0

_Answer = TypeVar("_Answer")


def watermarks(client: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """(first offset, offset after the last) of a partition. Raises `KafkaFailure`."""
    return ask_leader(
        client,
        topic,
        f"{topic} partition {partition}: asking for its offsets",
        lambda attempt_s: client.get_watermark_offsets(TopicPartition(topic, partition), timeout=attempt_s),
    )


def ask_leader(client: Consumer, topic: str, what: str, call: Callable[[float], _Answer | None]) -> _Answer:
    """`call(seconds)` again and again until a leader of `topic` answers, with leaders looked up in between.

    Raises `KafkaFailure` when none has answered in `REQUEST_TIMEOUT_SECONDS`.
    """

    def attempt(left_s: float) -> _Answer | None:
        try:
            return call(min(left_s, _ATTEMPT_SECONDS))
        except KafkaException:
            refresh_leaders(client, topic)
            raise

    return ask(what, REQUEST_TIMEOUT_SECONDS, attempt)


def refresh_leaders(client: Consumer, topic: str) -> None:
    """Have the client look up who leads the partitions of `topic` now.

    Of a partition that it does not read it remembers the leader for `metadata.max.age.ms`, a quarter of an
    hour, and goes on asking a broker that has died.
    """
    with contextlib.suppress(KafkaException):
        client.list_topics(topic, timeout=_ATTEMPT_SECONDS)


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


_SILENCE_SECONDS: Final = 30.0
"""Silence for this long, with records still to come, is a broker that does not answer."""


def read_to_end(settings: KafkaSettings, name: str) -> Iterator[TopicMessage]:
    """The records of the catalogue topic `name`, each partition in order, up to the end it has now.

    Raises `TopicMissing`, and `KafkaFailure` where the broker fails or falls silent.
    """
    # Records that are removed while others are read are no longer part of the topic.
    with TopicPartitions(settings, name, defaults={"auto.offset.reset": "earliest"}) as reader:
        ranges = {partition: reader.range_of(partition) for partition in range(reader.count())}
        ends = {partition: high for partition, (low, high) in ranges.items() if high > low}
        reader.assign({partition: ranges[partition][0] for partition in ends})
        yield from read_until(reader, ends, _SILENCE_SECONDS)


def offsets_of(settings: KafkaSettings, name: str) -> dict[int, tuple[int, int]]:
    """Of each partition of a catalogue topic its first offset and its end.

    Raises `TopicMissing`, and `KafkaFailure` where the broker fails.
    """
    with TopicPartitions(settings, name) as reader:
        return {partition: reader.range_of(partition) for partition in range(reader.count())}
