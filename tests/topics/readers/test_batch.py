"""What a client has fetched: one record waits for no other, ends count, and errors are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError

from culm_topics.errors import KafkaFailure, OffsetOutOfRange, TopicMissing, TopicsError
from culm_topics.readers.batch import Batch, fetch


@dataclass
class Fetched:
    """A message as a client gives it."""

    place: tuple[str | None, int | None, int | None]
    failed: KafkaError | None = None

    def topic(self) -> str | None:
        return self.place[0]

    def partition(self) -> int | None:
        return self.place[1]

    def offset(self) -> int | None:
        return self.place[2]

    def error(self) -> KafkaError | None:
        return self.failed


class Client:
    """Gives what is there, and notes how long it was to wait for it."""

    def __init__(self, *messages: Fetched) -> None:
        self.messages = list(messages)
        self.waits: list[float] = []

    def consume(self, most: int, timeout: float) -> list[Fetched]:
        self.waits.append(timeout)
        taken, self.messages = self.messages[:most], self.messages[most:]
        return taken


def fetched(*messages: Fetched, most: int = 10) -> Batch | None:
    return fetch(cast(Consumer, cast(Any, Client(*messages))), 0.5, most)


def end_of(topic: str, partition: int, offset: int) -> Fetched:
    return Fetched((topic, partition, offset), KafkaError(KafkaError._PARTITION_EOF))


def test_nothing_in_time_is_no_batch() -> None:
    assert fetched() is None


def test_only_the_first_record_is_waited_for() -> None:
    client = Client(*(Fetched(("a", 0, offset)) for offset in range(3)))
    batch = fetch(cast(Consumer, cast(Any, client)), 0.5, 10)
    assert batch is not None and len(batch.messages) == 3
    assert client.waits == [0.5, 0]


def test_no_more_is_taken_than_was_asked_for() -> None:
    batch = fetched(Fetched(("a", 0, 0)), Fetched(("a", 0, 1)), most=1)
    assert batch is not None and len(batch.messages) == 1


def test_offsets_stand_behind_the_last_record_and_at_the_end_of_a_partition() -> None:
    batch = fetched(Fetched(("a", 0, 4)), Fetched(("a", 0, 5)), Fetched(("b", 1, 7)), end_of("a", 0, 9))
    assert batch is not None
    assert [(one.topic(), one.offset()) for one in batch.messages] == [("a", 4), ("a", 5), ("b", 7)]
    assert batch.offsets == {("a", 0): 9, ("b", 1): 8}


@pytest.mark.parametrize("place", [("a", 0, None), (None, None, None)])
def test_an_error_that_passes_is_told_and_costs_no_record(place: Any) -> None:
    batch = fetched(Fetched(place, KafkaError(KafkaError._TRANSPORT)), Fetched(("a", 0, 1)))
    assert batch is not None and batch.offsets == {("a", 0): 2}
    assert len(batch.passing) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.OFFSET_OUT_OF_RANGE, OffsetOutOfRange),
        (KafkaError._AUTO_OFFSET_RESET, OffsetOutOfRange),
        (KafkaError._UNKNOWN_TOPIC, TopicMissing),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissing),
        (KafkaError._AUTHENTICATION, KafkaFailure),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaFailure),
    ],
)
def test_an_error_that_lasts_is_raised_as_what_it_means(code: int, error: type[TopicsError]) -> None:
    with pytest.raises(error):
        fetched(Fetched(("a", 0, 3), KafkaError(code)))
