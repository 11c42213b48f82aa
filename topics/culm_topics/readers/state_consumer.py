"""Base class of consumers of state, whose reader keeps the state in a local file."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar

from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.consumer import Item, TopicConsumer

READY: Final = 100
"""Number of changes that are computed at once."""


class FollowedState(Protocol):
    """The state of a topic in a local file, as a reader follows it."""

    @property
    def origin(self) -> Origin:
        """The cluster and the topic."""
        ...

    @property
    def passed_over(self) -> PassedOver:
        """Malformed records of the topic."""
        ...

    @property
    def remaining(self) -> int:
        """Number of offsets left to read until the end at the start, or at the last catch-up."""
        ...

    def close(self) -> None:
        """Close the connections and the file."""
        ...


Reader = TypeVar("Reader", bound=FollowedState)


class StateConsumer(TopicConsumer[Item], Generic[Item, Reader]):
    """Hands out the changes of a state. Closes `reader`, also if the constructor raises `OriginChanged`.

    A consumer provides `_fill`, `_fetch` and `finished`.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        since: Mapping[int, int] | None,
        origin: Origin | None,
        stop_at_end: bool,
        strict: bool,
    ) -> None:
        super().__init__()
        if origin is not None:
            try:
                origin.check(
                    reader.origin,
                    what="the positions to read changes from",
                    remedy="read everything again, without `since`",
                )
            except BaseException:
                reader.close()
                raise
        self._reader = reader
        self._since = dict(since or {})
        self._stop_at_end = stop_at_end
        self._strict = strict
        self._ready: deque[Item] = deque()
        self._handed_out = dict(self._since)

    @abstractmethod
    def _fill(self) -> None:
        """Compute the next changes of what was read into `_ready`, if it is empty."""

    @property
    def bad_records(self) -> int:
        """Number of malformed records that were skipped."""
        return self.passed_over.records

    @property
    def passed_over(self) -> PassedOver:
        """Malformed records of the topic: their number, and the first of them."""
        return self._reader.passed_over

    @property
    def origin(self) -> Origin:
        """The cluster and the topic to which `positions()` belong: store it with them."""
        return self._reader.origin

    def remaining_records(self) -> int:
        """Return the number of offsets left to read until the end at the start, or at the last `load`."""
        with self._lock:
            return self._reader.remaining

    def poll(self, timeout_seconds: float) -> Item | None:
        """Return the next change, or None if none arrives in time (or `stop_at_end` has reached the end)."""
        with self._lock:
            self._fill()
        return super().poll(timeout_seconds)

    def close(self) -> None:
        """Close the connections and the file: no lookups are possible afterwards."""
        super().close()

    def _close(self) -> None:
        self._reader.close()

    def _take(self) -> Item | None:
        return self._ready.popleft() if self._ready else None

    def _check_records(self) -> None:
        if self._strict and self.bad_records:
            raise RecordError(f"{self.passed_over.topic}: {self.passed_over.first[0]}")
