"""Readers of topics whose broker fails once: a program that goes on gets every record, in order."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException

from culm_topics.catalogue.topics import spec
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import TopicPartitions
from tests.support.kafka.failing_client import failing_clients
from tests.support.kafka.topic_io import write_records
from tests.support.process.waiting import looks

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("kind", ["message", "call"])
def test_records_that_came_with_an_error_are_read_again(
    kafka_bootstrap: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings, [spec("receipts")])
    written = [(number % 2, b"key", b"%d" % number) for number in range(20)]
    write_records(settings, "receipts", written)
    with failing_clients(monkeypatch) as made:
        reader = TopicPartitions(settings, "receipts")
    read: list[tuple[int, bytes]] = []
    failures = 0
    with reader:
        ends = reader.read_from({0: 0, 1: 0})
        made[0].fails = kind
        for _ in looks("the records"):
            try:
                read += [(message.partition, message.value) for message in reader.poll(0.2)]
            except (KafkaFailure, KafkaException):
                failures += 1
            if reader.has_reached(ends):
                break
    assert failures == 1
    for partition in range(2):
        expected = [value for place, _, value in written if place == partition]
        assert [value for place, value in read if place == partition] == expected
