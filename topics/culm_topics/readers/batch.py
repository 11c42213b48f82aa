"""Sorts the messages that a Kafka client has fetched: records, positions of their partitions, and errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message

from culm_topics.errors import KafkaFailure, OffsetOutOfRange, TopicMissing
from culm_topics.readers.broker_errors import OUT_OF_RANGE, PASSING, TOPIC_GONE

BATCH_RECORDS: Final = 1_000
_SHOWN_RECORDS: Final = 5

Partition = tuple[str, int]
"""Full name of the topic, number of the partition."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in the order of their partitions, and the next offset of every partition among them.

    `passing` describes the errors that pass by themselves.
    """

    messages: tuple[Message, ...]
    offsets: Mapping[Partition, int]
    passing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """One record; a missing key or value (a tombstone) is empty bytes. `timestamp_ms` is the broker's."""

    key: bytes
    value: bytes
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(slots=True)
class PassedOver:
    """Skipped malformed records of one topic (its catalogue name).

    `first` describes the position and the error of the first five.
    """

    topic: str
    records: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, message: TopicMessage, error: Exception) -> None:
        """Count a record, and keep its error if it is among the first five."""
        self.records += 1
        if len(self.first) < _SHOWN_RECORDS:
            self.first.append(f"partition {message.partition} offset {message.offset}: {error}")


def fetch(client: Consumer, timeout_s: float, max_records: int = BATCH_RECORDS) -> Batch | None:
    """Return the next records of the assigned partitions, at most `max_records`; None if none arrive in time.

    The client must have `enable.partition.eof`. Raises `OffsetOutOfRange`, `TopicMissing`, `KafkaFailure`,
    and the client's own `KafkaException`.
    """
    # `consume` waits until it has the number of records it was asked for; one record must not wait for
    # others.
    taken = client.consume(1, timeout_s)
    if not taken:
        return None
    if max_records > 1:
        taken += client.consume(max_records - 1, 0)
    messages: list[Message] = []
    offsets: dict[Partition, int] = {}
    passing: list[str] = []
    for message in taken:
        error = message.error()
        if error is None:
            topic, partition, offset = source_of(message)
            messages.append(message)
            offsets[topic, partition] = offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            # The end may lie behind records that a reader never sees (compacted, transaction markers).
            topic, partition, offset = source_of(message)
            offsets[topic, partition] = offset
        else:
            passing.append(_judged(error, message))
    return Batch(tuple(messages), offsets, tuple(passing))


def source_of(message: Message) -> tuple[str, int, int]:
    """Return topic, partition and offset of a record that was read."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "a record has a place"
    return topic, partition, offset


def _judged(error: KafkaError, message: Message) -> str:
    """Describe an error that passes by itself. Raises the exception for any other error."""
    where = "Kafka" if message.topic() is None else f"{message.topic()} [{message.partition()}]"
    description = f"{where}: {error.str()}"
    if error.code() in OUT_OF_RANGE:
        raise OffsetOutOfRange(description)
    if error.code() in TOPIC_GONE:
        raise TopicMissing(description)
    if error.fatal() or not (error.retriable() or error.code() in PASSING):
        raise KafkaFailure(f"reading failed: {description}")
    return description
