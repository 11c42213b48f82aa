"""Base class of consumers: an iterator (also asynchronous) that other threads can stop."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from culm_topics.closing import Closing

if TYPE_CHECKING:
    from types import TracebackType

Item = TypeVar("Item")

POLL_SECONDS: Final = 0.2


class TopicConsumer(Closing, Generic[Item]):
    """Hands out items read from topics. Not for several threads or tasks at once, except `stop()`.

    A consumer provides `_take`, `_fetch`, `_close` and `finished`; `_take` and `_fetch` are called under the
    lock.
    """

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._lock = threading.RLock()

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether nothing more is handed out, because the end at which reading stops was reached."""

    @abstractmethod
    def _take(self) -> Item | None:
        """Return the next item that is in memory, without waiting, or None."""

    @abstractmethod
    def _fetch(self, timeout_seconds: float) -> None:
        """Read more after `_take` has returned None; wait at most this long."""

    @abstractmethod
    def _close(self) -> None:
        """Close connections and files."""

    def poll(self, timeout_seconds: float) -> Item | None:
        """Return the next item, or None if none arrives in time or the end was reached."""
        deadline_s = time.monotonic() + timeout_seconds
        while (item := self._locked_take()) is None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or self.finished or self._stopped.is_set():
                return None
            self._locked_fetch(min(left_s, POLL_SECONDS))
        return item

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        while not self._stopped.is_set():
            if (item := self.poll(POLL_SECONDS)) is not None:
                return item
            if self.finished:
                break
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while not self._stopped.is_set():
            if (item := self._locked_take()) is not None:
                return item
            if self.finished:
                break
            await asyncio.to_thread(self._locked_fetch, POLL_SECONDS)
        raise StopAsyncIteration

    def stop(self) -> None:
        """End the iteration before the next item; safe from other threads and from signal handlers."""
        self._stopped.set()

    def close(self) -> None:
        """Stop, and close connections and files."""
        self._stopped.set()
        with self._lock:
            self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, traceback)

    def _locked_take(self) -> Item | None:
        with self._lock:
            return self._take()

    def _locked_fetch(self, timeout_seconds: float) -> None:
        with self._lock:
            self._fetch(timeout_seconds)
