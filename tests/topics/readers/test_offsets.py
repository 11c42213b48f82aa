"""Asking where a partition ends outlives the broker that led it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from culm_topics.errors import KafkaFailure
from culm_topics.readers import broker_errors
from culm_topics.readers.partitions import watermarks


class Client:
    """Asks the leader that it knows, which is dead until the metadata are read again."""

    def __init__(self, refreshes_needed: int, error: int = KafkaError._TIMED_OUT) -> None:
        self.refreshes_needed = refreshes_needed
        self.error = error
        self.longest_s = 0.0

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        self.longest_s = max(self.longest_s, timeout)
        if self.refreshes_needed > 0:
            raise KafkaException(KafkaError(self.error))
        return 2, 7

    def list_topics(self, topic: str, timeout: float) -> None:
        self.refreshes_needed -= 1
        if self.refreshes_needed == 1:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_errors, "_RETRY_SECONDS", 0)


def test_the_new_leader_is_looked_up_when_the_known_one_does_not_answer() -> None:
    client: Any = Client(3)
    assert watermarks(client, "logs", 0) == (2, 7)
    assert client.longest_s <= 5.0, "a dead leader must not use up all the time there is"


def test_an_error_that_does_not_pass_ends_it() -> None:
    client: Any = Client(2, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaFailure, match="asking for its offsets"):
        watermarks(client, "logs", 0)
