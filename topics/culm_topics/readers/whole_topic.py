"""Reading a topic as it stands: every record of every partition up to the end that it has now.

For the small, mostly compacted topics that operators and tools look at (`version-vectors`, `rejected`,
`announcements`). Programs that consume the replicated logs use `LogConsumer`.
"""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, TopicPartition

from culm_topics.errors import KafkaFailure, TopicMissing
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.broker_errors import PASSING, ask
from culm_topics.readers.offsets import REQUEST_TIMEOUT_SECONDS, watermarks

_BATCH = 1_000
_POLL_SECONDS = 0.5
_SHOWN_RECORDS = 5
# Silence for this long, with records still to come, is a broker that does not answer.
_SILENCE_SECONDS = 30.0


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
    """Records of one topic (its catalogue name) that are not what they should be: one costs only itself.

    `first` says of the first few where they stand and what is wrong.
    """

    topic: str
    records: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, message: TopicMessage, error: Exception) -> None:
        """One more."""
        self.records += 1
        if len(self.first) < _SHOWN_RECORDS:
            self.first.append(f"partition {message.partition} offset {message.offset}: {error}")


def read_to_end(settings: KafkaSettings, name: str) -> Iterator[TopicMessage]:
    """The records of the catalogue topic `name`, each partition in order, up to the end it has now.

    Raises `TopicMissing`, and `KafkaFailure` where the broker fails or falls silent.
    """
    topic = settings.topic(name)
    # The group is only a name here: nothing is ever committed.
    consumer = kafka.consumer(
        settings,
        group_id=f"{reader_group_prefix(settings)}{uuid.uuid4().hex}",
        start="earliest",
        defaults={"enable.partition.eof": "true"},
    )
    try:
        ends: dict[int, int] = {}
        starts: list[TopicPartition] = []
        for number in _partitions(consumer, topic):
            low, high = watermarks(consumer, topic, number)
            if high > low:
                ends[number] = high
                starts.append(TopicPartition(topic, number, low))
        consumer.assign(starts)
        heard_s = time.monotonic()
        while ends:
            messages = consumer.consume(_BATCH, _POLL_SECONDS)
            for message in messages:
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        ends.pop(message.partition() or 0, None)
                        continue
                    if error.code() in PASSING:
                        continue
                    raise KafkaFailure(f"reading {topic} failed: {error}")
                heard_s = time.monotonic()
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None, "a record has a place"
                if offset < ends.get(partition, 0):
                    yield TopicMessage(
                        message.key() or b"",
                        message.value() or b"",
                        partition,
                        offset,
                        message.timestamp()[1],
                    )
            # The end that is told moves on while others write; the position says that ours was reached.
            for position in consumer.position([TopicPartition(topic, partition) for partition in ends]):
                if position.offset >= ends[position.partition]:
                    del ends[position.partition]
            if ends and time.monotonic() - heard_s > _SILENCE_SECONDS:
                raise KafkaFailure(f"the broker sent nothing of {topic} for {_SILENCE_SECONDS:.0f} s")
    finally:
        consumer.close()


def offsets_of(settings: KafkaSettings, name: str) -> dict[int, tuple[int, int]]:
    """Of each partition of a catalogue topic its first offset and its end.

    Raises `TopicMissing`, and `KafkaFailure` where the broker fails.
    """
    topic = settings.topic(name)
    consumer = kafka.consumer(
        settings, group_id=f"{reader_group_prefix(settings)}{uuid.uuid4().hex}", start="earliest"
    )
    try:
        return {
            partition: watermarks(consumer, topic, partition) for partition in _partitions(consumer, topic)
        }
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    known = ask(
        f"asking for the topic {topic}",
        REQUEST_TIMEOUT_SECONDS,
        lambda left_s: consumer.list_topics(topic, timeout=left_s),
    )
    found = known.topics.get(topic)
    if found is None or found.error is not None:
        raise TopicMissing(f"the topic {topic} does not exist")
    return list(found.partitions)
