"""Due times by key, growing waits between tries, and the draws that spread them.

All numbers of a channel that look random follow from a seed and their purpose. The same channel, replayed
from the same inputs, draws the same numbers, so it sends the same bytes at the same times. Without the seed,
a draw cannot be recognised from outside.

In a queue, the lower number of equal times goes first. Obsolete entries stay in its heaps until they reach
the front, or until they outnumber the others.

The wait before each further try grows: it doubles, up to a limit, and is spread by a draw. The first wait is
exactly the stated period. A draw shortens later waits by up to a quarter, so that participants that lost the
same message at the same time do not repeat themselves together. No wait is longer than its nominal length, so
at nominal times everything is due.
"""

from collections.abc import Callable
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

_DRAW_BYTES: Final = 8
_DRAW_BITS: Final = 8 * _DRAW_BYTES

Draw: TypeAlias = Callable[[str, str, int], int]
"""A uniform number below 2**64 for (purpose, message id, count): always equal for equal arguments."""


def draw(seed: bytes, what: str, *parts: str | int) -> int:
    """Return a number from 0 to 2**64 - 1 for one purpose (`what`) and occasion (`parts`: ids, counts)."""
    fields = [seed, what.encode()]
    fields += [str(part).encode() for part in parts]
    named = b"".join([len(part).to_bytes(8, "big") + part for part in fields])
    return int.from_bytes(blake2b(named, digest_size=_DRAW_BYTES).digest(), "big")


def draw_below(bound: int, seed: bytes, what: str, *parts: str | int) -> int:
    """Draw a number from 0 to `bound` - 1; 0 if the bound is 1 or less."""
    return share(bound, draw(seed, what, *parts)) if bound > 1 else 0


def wait_ms(period_ms: int, tries: int, most_ms: int, drawn: int) -> int:
    """Return the wait after `tries` unsuccessful tries: `period_ms`, doubled each time, up to `most_ms`.

    `drawn` is a uniform number below 2**64; it has no effect if `tries` is 0.
    """
    # A larger shift would only give a number that the limit cuts off.
    nominal = min(period_ms << min(tries, 40), most_ms)
    return nominal if tries == 0 else nominal - share(nominal // 4 + 1, drawn)


def share(limit: int, drawn: int) -> int:
    """Scale a uniform number below 2**64 to 0 to `limit` - 1 (0 if `limit` is 0)."""
    return limit * drawn >> _DRAW_BITS


def early_share(limit: int, group: int, drawn: int) -> int:
    """Scale a number below 2**64 to 0 to `limit`, such that few of a group get a number near `limit`.

    Each doubling of `group` takes an equal part of the range: about one of the group draws a number at the
    far end, two draw one in the part before it, four in the part before that, and half at the near end.
    """
    # The binary logarithm of 2**64 / drawn, in 1,024ths: exact at powers of two, linear between them.
    drawn |= 1
    zeros = _DRAW_BITS - drawn.bit_length()
    logarithm = (zeros << 10) + (((1 << _DRAW_BITS) - (drawn << zeros)) >> (_DRAW_BITS - 11))
    return min(limit, limit * logarithm // ((group - 1).bit_length() << 10))


_STALE: Final = 256


class TimerQueue:
    """Due times in milliseconds by key."""

    __slots__ = ("_first", "_last", "_times")

    def __init__(self) -> None:
        self._times: dict[str, tuple[int, int]] = {}
        self._first: list[tuple[int, int, str]] = []
        # From the last to the first; made on demand.
        self._last: list[tuple[int, int, str]] | None = None

    def put(self, key: str, due_ms: int, number: int) -> None:
        """Set the due time of `key`, instead of any earlier one."""
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
        """Remove `key`, if it is present."""
        self._times.pop(key, None)

    def first(self) -> tuple[int, str] | None:
        """Return the earliest due time and its key; None if the queue is empty."""
        return self._live(self._first, 1)

    def last(self) -> tuple[int, str] | None:
        """Return the latest due time and its key; None if the queue is empty."""
        if self._last is None:
            self._last = self._heap(-1)
        return self._live(self._last, -1)

    def next_due_ms(self) -> int | None:
        """Return the earliest due time; None if the queue is empty."""
        first = self.first()
        return None if first is None else first[0]

    def take(self, now_ms: int) -> str | None:
        """Remove and return the key that is due first, if it is due by `now_ms`."""
        first = self.first()
        if first is None or first[0] > now_ms:
            return None
        heappop(self._first)
        del self._times[first[1]]
        return first[1]

    def time(self, key: str) -> tuple[int, int]:
        """Return the due time of a present key, and its number."""
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
