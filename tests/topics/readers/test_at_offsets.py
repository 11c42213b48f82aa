"""Records are read by their offsets, and what is not there any more is told with the reason."""

from __future__ import annotations

import pytest

from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.at_offsets import Absent, read_at
from culm_topics.readers.partitions import TopicPartitions
from tests.support.kafka.topic_io import expire, write_records

pytestmark = pytest.mark.kafka


def test_records_are_read_by_their_offsets_in_order(kafka: KafkaSettings) -> None:
    write_records(
        kafka, "entries", [(number % 2, b"k%d" % number, b"v%d" % number) for number in range(6_000)]
    )
    with TopicPartitions(kafka, "entries") as reader:
        read = list(read_at(reader, {1: [2_999, 0, 7], 0: {5}}))
    assert [(record.partition, record.offset) for record in read] == [(0, 5), (1, 0), (1, 7), (1, 2_999)]
    assert [record.value for record in read if not isinstance(record, Absent)] == [
        b"v10",
        b"v1",
        b"v15",
        b"v5999",
    ]


def test_a_record_that_is_not_there_is_told_with_the_reason(kafka: KafkaSettings) -> None:
    write_records(kafka, "entries", [(0, b"k", b"old")] * 3 + [(1, b"k", b"old")])
    expire(kafka, "entries")
    write_records(kafka, "entries", [(0, b"k", b"new")])
    with TopicPartitions(kafka, "entries") as reader:
        read = list(read_at(reader, {0: [1, 3, 9], 5: [0]}))
    reasons = [getattr(record, "reason", "there") for record in read]
    assert sorted(reasons) == ["beyond", "expired", "partition", "there"]
    words = " ".join(map(str, read))
    assert (
        f"retention has removed offset 1 of {kafka.topic('entries')} partition 0, which begins at 3" in words
    )
    assert "the partition ends at 4, so the topic was created again since" in words
    assert "the topic has 2 partitions" in words
