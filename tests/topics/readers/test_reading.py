"""Reading a topic to the end that it has now, on the real broker."""

from __future__ import annotations

import pytest

from culm_topics.errors import TopicMissing
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.whole_topic import read_to_end

pytestmark = pytest.mark.kafka


def test_every_partition_is_read_to_its_end_and_no_further(kafka_bootstrap: str, topic_prefix: str) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=3)
    admin.create(settings)
    assert list(read_to_end(settings, "receipts")) == []
    producer = kafka.producer(settings)
    for number in range(50):
        producer.produce(settings.topic("receipts"), key=b"%032d" % number, value=b"%d" % number)
    assert producer.flush(30) == 0
    messages = list(read_to_end(settings, "receipts"))
    assert sorted(int(message.value) for message in messages) == list(range(50))
    assert len({message.partition for message in messages}) > 1


def test_a_missing_topic_is_an_error(kafka_bootstrap: str, topic_prefix: str) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    with pytest.raises(TopicMissing):
        list(read_to_end(settings, "receipts"))
