"""The topics of a connector under test: what it wrote, and what the streaming job would write."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Message

from culm_connectors.kafka import TopicReader
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_topics.kafka.clients import KafkaSettings, consumer, producer
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key
from tests.support.waiting import while_working


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
        for one in log:
            record = LogRecord(one.entry.seq_num, one.entry_bytes, one.payload_bytes, one.hash, one.schema_id)
            writer.produce(kafka.topic("logs"), record.encode(), log_key(*one.log))
    assert writer.flush(20) == 0
