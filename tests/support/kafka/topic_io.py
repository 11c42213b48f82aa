"""Records into topics and out of them, on the real broker, and what a connector wrote there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Message, TopicPartition

from culm_connectors.kafka import TopicReader
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings, consumer, producer
from culm_topics.logs.records import LogRecord
from culm_topics.records import RejectedRecord, log_key
from tests.support.p2panda.logs_job import entry_value
from tests.support.process.waiting import while_working

_TIMEOUT_SECONDS = 30.0
# In place of a partition: the one where the key belongs.
_BY_KEY = -1


def produce(settings: KafkaSettings, name: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    """Write (key, value) records in order, each where its key belongs; returns when the broker has them."""
    write_records(settings, name, ((_BY_KEY, key, value) for key, value in records))


def produce_entries(settings: KafkaSettings, entries: Iterable[CheckedOperation]) -> None:
    """Write entries as connectors would."""
    produce(settings, "entries", [(log_key(*checked.log), entry_value(checked)) for checked in entries])


def end_offsets(settings: KafkaSettings, name: str) -> dict[int, int]:
    """How many records each partition has taken."""
    client = kafka.consumer(settings, group_id="tests", start="earliest")
    try:
        topic = settings.topic(name)
        partitions = client.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions
        return {
            number: client.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_SECONDS)[1]
            for number in partitions
        }
    finally:
        client.close()


def expire(settings: KafkaSettings, name: str) -> None:
    """Remove all that is on a topic now, as retention does."""
    gone = [
        TopicPartition(settings.topic(name), *partition) for partition in end_offsets(settings, name).items()
    ]
    client = kafka.admin(settings)
    for future in client.delete_records(gone).values():
        future.result(_TIMEOUT_SECONDS)


def read_all(settings: KafkaSettings, name: str) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of all records of a topic as they are now; each partition in its order."""
    return [(key, value) for _, key, value in read_records(settings, name)]


def read_records(settings: KafkaSettings, name: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """(partition, key, value) of all records of a topic as they are now; each partition in its order."""
    ends = {number: end for number, end in end_offsets(settings, name).items() if end}
    client = kafka.consumer(settings, group_id="tests", start="earliest")
    records: list[tuple[int, bytes | None, bytes | None]] = []
    try:
        client.assign([TopicPartition(settings.topic(name), number, 0) for number in ends])
        while ends:
            message: Message | None = client.poll(_TIMEOUT_SECONDS)
            assert message is not None, f"no more records of {name} in time"
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            records.append((partition, message.key(), message.value()))
            if offset + 1 >= ends.get(partition, 0):
                ends.pop(partition, None)
        return records
    finally:
        client.close()


def write_records(
    settings: KafkaSettings, name: str, records: Iterable[tuple[int, bytes | None, bytes | None]]
) -> None:
    """Write (partition, key, value) records in order; returns when the broker has them."""
    client = kafka.producer(settings, bulk=True)
    for partition, key, value in records:
        client.produce(settings.topic(name), value, key, partition)
        client.poll(0)
    assert client.flush(_TIMEOUT_SECONDS) == 0


def read_logs(settings: KafkaSettings, *, drop_repeats: bool = False) -> dict[bytes, list[LogRecord]]:
    """Everything on `logs` by log. `drop_repeats` reads as readers do: what they have seen, they drop."""
    logs: dict[bytes, list[LogRecord]] = {}
    for key, value in read_all(settings, "logs"):
        assert key is not None
        record = LogRecord.decode(value)
        seen = logs.setdefault(key, [])
        if drop_repeats and record.seq_num <= len(seen):
            assert seen[record.seq_num - 1] == record
            continue
        seen.append(record)
    return logs


def read_rejected(settings: KafkaSettings) -> list[RejectedRecord]:
    """Everything on `rejected`."""
    return [RejectedRecord.decode(value) for _, value in read_all(settings, "rejected")]


async def read_topic(
    kafka: KafkaSettings, name: str, enough: Callable[[list[Message]], bool]
) -> list[Message]:
    """Records of a topic, from its beginning until there are enough."""
    messages: list[Message] = []
    reader = TopicReader(lambda: consumer(kafka, group_id="test"), kafka.topic(name), {})
    async with reader, while_working():
        while not enough(messages):
            messages.extend((await reader.get()).messages)
    return messages


def write_truth(kafka: KafkaSettings, *logs: list[CheckedOperation]) -> None:
    """What the streaming job would write."""
    writer = producer(kafka)
    for log in logs:
        for entry in log:
            record = LogRecord(
                entry.entry.seq_num, entry.entry_bytes, entry.payload_bytes, entry.hash, entry.schema_id
            )
            writer.produce(kafka.topic("logs"), record.encode(), log_key(*entry.log))
    assert writer.flush(20) == 0
