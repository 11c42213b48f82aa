"""Bounds of partitions, and reading: from given offsets on, or a whole topic up to its present end.

`TopicPartitions` never jumps by itself: an offset that is not in the topic is an error, since this reader has
lost the records in between. Reading a topic whole is for the small, mostly compacted ones that operators and
tools look at (`version-vectors`, `rejected`, `announcements`). Programs that consume the replicated logs use
`LogConsumer`.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from culm_topics.closing import Closing
from culm_topics.errors import KafkaFailure, OffsetOutOfRange, TopicMissing, TopicsError
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import BATCH_RECORDS, TopicMessage, fetch, source_of
from culm_topics.readers.broker_errors import ask

REQUEST_TIMEOUT_SECONDS = 30.0
SILENCE_SECONDS: Final = 30.0
"""A broker that sends nothing for this time, with records still missing, is regarded as failed."""
_ATTEMPT_SECONDS = 5.0
_RIGHTS_HINT = "grant what `culm topics acls` lists"

_Answer = TypeVar("_Answer")


def watermarks(client: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return (first offset, offset after the last) of a partition. Raises `KafkaFailure`."""
    return ask_leader(
        client,
        topic,
        f"{topic} partition {partition}: asking for its offsets",
        lambda attempt_s: client.get_watermark_offsets(TopicPartition(topic, partition), timeout=attempt_s),
    )


def ask_leader(client: Consumer, topic: str, what: str, call: Callable[[float], _Answer | None]) -> _Answer:
    """Call `call(seconds)` until a leader of `topic` answers; looks up the leaders between attempts.

    Raises `KafkaFailure` if there is no answer within `REQUEST_TIMEOUT_SECONDS`.
    """

    def attempt(left_s: float) -> _Answer | None:
        try:
            return call(min(left_s, _ATTEMPT_SECONDS))
        except KafkaException:
            refresh_leaders(client, topic)
            raise

    return ask(what, REQUEST_TIMEOUT_SECONDS, attempt)


def refresh_leaders(client: Consumer, topic: str) -> None:
    """Make the client look up the present leaders of the partitions of `topic`.

    For a partition that it does not read, the client remembers the leader for `metadata.max.age.ms` (15
    minutes), and keeps asking a broker that has died.
    """
    with contextlib.suppress(KafkaException):
        client.list_topics(topic, timeout=_ATTEMPT_SECONDS)


class TopicPartitions(Closing):
    """A client that reads chosen partitions of the catalogue topic `name`. Not for several threads.

    The constructor sends no request. Every method raises `TopicMissing`, or `KafkaFailure` if the broker
    fails. `group_prefix` replaces that of consumers, for a program with other rights.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        name: str,
        *,
        defaults: Mapping[str, str] | None = None,
        group_prefix: str | None = None,
    ) -> None:
        self.topic = settings.topic(name)
        # The group id is only a name here: nothing is ever committed.
        self._client: Consumer = kafka.consumer(
            settings,
            group_id=f"{group_prefix or reader_group_prefix(settings)}{uuid.uuid4().hex}",
            defaults={"enable.partition.eof": "true", **(defaults or {})},
        )
        self.positions: dict[int, int] = {}
        """The next offset to read of each partition that is read."""

    def count(self) -> int:
        """Return the number of partitions of the topic."""
        known = ask(
            f"asking for the topic {self.topic}",
            REQUEST_TIMEOUT_SECONDS,
            lambda left_s: self._client.list_topics(self.topic, timeout=left_s),
        )
        metadata = known.topics.get(self.topic)
        error = None if metadata is None else metadata.error
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise KafkaFailure(
                f"the topic {self.topic} may not be read here", passes=False, hint=_RIGHTS_HINT
            )
        if metadata is None or metadata.error is not None:
            raise TopicMissing(f"the topic {self.topic} does not exist: create it with `culm topics create`")
        return len(metadata.partitions)

    def range_of(self, partition: int) -> tuple[int, int]:
        """Return (first offset, offset after the last) of a partition, at present."""
        return watermarks(self._client, self.topic, partition)

    def ranges(self) -> dict[int, tuple[int, int]]:
        """Return (first offset, offset after the last) of every partition of the topic, at present."""
        return {partition: self.range_of(partition) for partition in range(self.count())}

    def starts(self) -> dict[int, int]:
        """Return the first offset of every partition of the topic."""
        return {partition: first for partition, (first, _) in self.ranges().items()}

    def ends(self) -> dict[int, int]:
        """Return the present offset after the last of every partition that is read."""
        return {partition: self.range_of(partition)[1] for partition in self.positions}

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether every partition has been read to its end in `ends`."""
        return all(self.positions[partition] >= end for partition, end in ends.items())

    def remaining(self, ends: Mapping[int, int]) -> int:
        """Return the number of offsets left to read until these ends."""
        return sum(max(0, end - self.positions[partition]) for partition, end in ends.items())

    def offset_at(self, partition: int, timestamp_ms: int) -> int:
        """Return the first offset with a broker timestamp of `timestamp_ms` or later, or the end."""
        asked = [TopicPartition(self.topic, partition, timestamp_ms)]
        answer = ask_leader(
            self._client,
            self.topic,
            f"asking for an offset of {self.topic} [{partition}] by its time",
            lambda attempt_s: self._client.offsets_for_times(asked, timeout=attempt_s),
        )[0]
        if answer.error is not None:
            raise KafkaFailure(f"{self.topic} [{partition}]: {answer.error}")
        return answer.offset if answer.offset >= 0 else self.range_of(partition)[1]

    def read_from(self, starts: Mapping[int, int]) -> dict[int, int]:
        """Read these partitions from these offsets on, and no others. Returns the present end of each.

        Raises `OffsetOutOfRange` for an offset that is no longer, or not yet, in the topic.
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
        """Like `read_from`, for offsets that are known to be in the topic; an empty mapping stops reading."""
        self.positions = dict(starts)
        self._client.assign([TopicPartition(self.topic, *start) for start in starts.items()])

    def poll(self, timeout_seconds: float, max_records: int = BATCH_RECORDS) -> list[TopicMessage]:
        """Return at most `max_records` records, each partition in order; empty if none arrive in time.

        Returns as soon as there is a record, with all records fetched so far. The list is also empty if the
        end of a partition was reached: `positions` has the new offset.
        """
        try:
            batch = fetch(self._client, timeout_seconds, max_records)
        except (TopicsError, KafkaException):
            # The client is past records that came with the error: a program that goes on reads them again.
            self.assign(self.positions)
            raise
        if batch is None:
            return []
        records = []
        for message in batch.messages:
            _, partition, offset = source_of(message)
            # After a new assignment, records fetched for the previous one may still arrive.
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
    reader: TopicPartitions,
    ends: Mapping[int, int],
    *,
    silence_seconds: float = SILENCE_SECONDS,
    max_records: int = BATCH_RECORDS,
) -> Iterator[list[TopicMessage]]:
    """Yield all records up to `ends`, including records beyond `ends` in the same batch.

    For a caller that continues reading later. Raises `KafkaFailure` if nothing arrives for `silence_seconds`
    before `ends` is reached.
    """
    deadline_s = time.monotonic() + silence_seconds
    while not reader.has_reached(ends):
        if records := reader.poll(0.2, max_records):
            yield records
            deadline_s = time.monotonic() + silence_seconds
        elif time.monotonic() > deadline_s:
            raise KafkaFailure(f"the broker sent nothing of {reader.topic} for {silence_seconds:.0f} s")


def read_until(
    reader: TopicPartitions,
    ends: Mapping[int, int],
    *,
    silence_seconds: float = SILENCE_SECONDS,
    max_records: int = BATCH_RECORDS,
) -> Iterator[TopicMessage]:
    """Yield all records before `ends`. Raises the same errors as `read_through`."""
    for records in read_through(reader, ends, silence_seconds=silence_seconds, max_records=max_records):
        yield from (record for record in records if record.offset < ends[record.partition])


def _bytes(data: bytes | str | None) -> bytes:
    return data.encode() if isinstance(data, str) else data or b""


def read_to_end(settings: KafkaSettings, name: str) -> Iterator[TopicMessage]:
    """Yield the records of the catalogue topic `name`, each partition in order, up to its present end.

    Raises `TopicMissing`, and `KafkaFailure` if the broker fails or stops sending.
    """
    # Records that are removed during the reading are no longer part of the topic.
    with TopicPartitions(settings, name, defaults={"auto.offset.reset": "earliest"}) as reader:
        ranges = reader.ranges()
        ends = {partition: high for partition, (low, high) in ranges.items() if high > low}
        reader.assign({partition: ranges[partition][0] for partition in ends})
        yield from read_until(reader, ends)


def offsets_of(settings: KafkaSettings, name: str) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end of each partition of a catalogue topic.

    Raises `TopicMissing`, and `KafkaFailure` if the broker fails.
    """
    with TopicPartitions(settings, name) as reader:
        return reader.ranges()
