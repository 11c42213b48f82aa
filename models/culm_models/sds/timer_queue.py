"""What is due when: keys by time, from the first to the last, changed and dropped at the cost of a heap.

Of equal times the lower number goes first. Entries that no longer hold stay in the heaps until they come to
the front, or until there are more of them than of the others.
"""

from heapq import heapify, heappop, heappush
from typing import Final

_STALE: Final = 256


class TimerQueue:
    """Due times in milliseconds by key."""

    __slots__ = ("_first", "_last", "_times")

    def __init__(self) -> None:
        self._times: dict[str, tuple[int, int]] = {}
        self._first: list[tuple[int, int, str]] = []
        # From the last to the first; made when it is asked for.
        self._last: list[tuple[int, int, str]] | None = None

    def put(self, key: str, due_ms: int, number: int) -> None:
        """`key` is due at `due_ms`, and no longer at another time."""
        time = (due_ms, number)
        if self._times.get(key) == time:
            return
        self._times[key] = time
        heappush(self._first, (due_ms, number, key))
        if self._last is not None:
            heappush(self._last, (-due_ms, -number, key))
        if len(self._first) > 2 * len(self._times) + _STALE:
            self._first = self._heap(1)
        if self._last is not None and len(self._last) > 2 * len(self._times) + _STALE:
            self._last = self._heap(-1)

    def drop(self, key: str) -> None:
        """`key` is not due at any time; it need not be here."""
        self._times.pop(key, None)

    def first(self) -> tuple[int, str] | None:
        """The earliest due time and its key; None when nothing is due ever."""
        return self._live(self._first, 1)

    def last(self) -> tuple[int, str] | None:
        """The latest due time and its key; None when nothing is due ever."""
        if self._last is None:
            self._last = self._heap(-1)
        return self._live(self._last, -1)

    def next_due_ms(self) -> int | None:
        """The earliest due time; None when nothing is due ever."""
        first = self.first()
        return None if first is None else first[0]

    def take(self, now_ms: int) -> str | None:
        """Take out the key that is due first, if it is due by `now_ms`."""
        first = self.first()
        if first is None or first[0] > now_ms:
            return None
        heappop(self._first)
        del self._times[first[1]]
        return first[1]

    def time(self, key: str) -> tuple[int, int]:
        """When a key is due that is here, and its number."""
        return self._times[key]

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: object) -> bool:
        return key in self._times

    def _live(self, heap: list[tuple[int, int, str]], sign: int) -> tuple[int, str] | None:
        times = self._times
        while heap:
            due_ms, number, key = heap[0]
            if times.get(key) == (sign * due_ms, sign * number):
                return sign * due_ms, key
            heappop(heap)
        return None

    def _heap(self, sign: int) -> list[tuple[int, int, str]]:
        heap = [(sign * due_ms, sign * number, key) for key, (due_ms, number) in self._times.items()]
        heapify(heap)
        return heap
