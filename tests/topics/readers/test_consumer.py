"""The shell of every consumer: batches that the client has fetched, ends, and errors; without Kafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from culm_topics.errors import KafkaFailure, OffsetOutOfRange, TopicMissing, TopicsError
from culm_topics.readers import broker_errors
from culm_topics.readers.batch import Batch, fetch
from culm_topics.readers.consumer import TopicConsumer
from culm_topics.readers.partitions import watermarks


class Numbers(TopicConsumer[int]):
    """Fetches one batch after another, and ends behind the last one unless it follows."""

    def __init__(self, *batches: Iterable[int], follow: bool = False) -> None:
        super().__init__()
        self.batches = deque(batches)
        self.ready: deque[int] = deque()
        self.waited_s: list[float] = []
        self.closed = 0
        self._follow = follow

    @property
    def finished(self) -> bool:
        return not self._follow and not self.batches and not self.ready

    def _take(self) -> int | None:
        return self.ready.popleft() if self.ready else None

    def _fetch(self, timeout_seconds: float) -> None:
        self.waited_s.append(timeout_seconds)
        if self.batches:
            self.ready.extend(self.batches.popleft())
        elif len(self.waited_s) > 5:
            self.stop()

    def _close(self) -> None:
        self.closed += 1


def test_everything_comes_in_order_and_the_iteration_ends_at_the_end() -> None:
    with Numbers([1, 2], [], [3]) as numbers:
        assert list(numbers) == [1, 2, 3]
    assert numbers.closed == 1


async def test_everything_comes_in_an_event_loop_until_it_is_stopped() -> None:
    async with Numbers([1, 2], [], [3]) as numbers:
        assert [number async for number in numbers] == [1, 2, 3]
        numbers.ready.append(4)
        numbers.stop()
        assert [number async for number in numbers] == []
    assert numbers.closed == 1


def test_polling_waits_no_longer_than_it_is_asked_to_and_takes_what_is_at_hand_at_once() -> None:
    numbers = Numbers([1, 2])
    assert numbers.poll(0.0) is None and numbers.waited_s == []
    assert numbers.poll(0.05) == 1 and max(numbers.waited_s) <= 0.05
    assert numbers.poll(0.0) == 2
    assert numbers.poll(60.0) is None, "the end was reached"


def test_a_consumer_that_is_stopped_hands_out_nothing_more() -> None:
    numbers = Numbers([1, 2, 3], follow=True)
    assert next(numbers) == 1
    numbers.stop()
    assert list(numbers) == []
    waiting = Numbers(follow=True)
    assert list(waiting) == [], "stopped while it waits"


def test_an_error_within_the_block_closes_it() -> None:
    numbers = Numbers([1])
    with pytest.raises(KeyError), numbers:
        raise KeyError
    assert numbers.closed == 1


# What a client has fetched: one record waits for no other, ends count, and errors are told apart.


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

    def consume(self, limit: int, timeout: float) -> list[Fetched]:
        self.waits.append(timeout)
        taken, self.messages = self.messages[:limit], self.messages[limit:]
        return taken


def fetched(*messages: Fetched, limit: int = 10) -> Batch | None:
    return fetch(cast(Consumer, cast(Any, Client(*messages))), 0.5, limit)


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
    batch = fetched(Fetched(("a", 0, 0)), Fetched(("a", 0, 1)), limit=1)
    assert batch is not None and len(batch.messages) == 1


def test_offsets_stand_behind_the_last_record_and_at_the_end_of_a_partition() -> None:
    batch = fetched(Fetched(("a", 0, 4)), Fetched(("a", 0, 5)), Fetched(("b", 1, 7)), end_of("a", 0, 9))
    assert batch is not None
    assert [(message.topic(), message.offset()) for message in batch.messages] == [
        ("a", 4),
        ("a", 5),
        ("b", 7),
    ]
    assert batch.offsets == {("a", 0): 9, ("b", 1): 8}


@pytest.mark.parametrize("position", [("a", 0, None), (None, None, None)])
def test_an_error_that_passes_is_told_and_costs_no_record(position: Any) -> None:
    batch = fetched(Fetched(position, KafkaError(KafkaError._TRANSPORT)), Fetched(("a", 0, 1)))
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


# Asking where a partition ends outlives the broker that led it.


class OffsetsClient:
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
    client: Any = OffsetsClient(3)
    assert watermarks(client, "logs", 0) == (2, 7)
    assert client.longest_s <= 5.0, "a dead leader must not use up all the time there is"


def test_an_error_that_does_not_pass_ends_it() -> None:
    client: Any = OffsetsClient(2, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaFailure, match="asking for its offsets"):
        watermarks(client, "logs", 0)
