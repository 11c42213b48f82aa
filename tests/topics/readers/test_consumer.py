"""The shell of every consumer, without Kafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import pytest

from culm_topics.readers.consumer import TopicConsumer


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
