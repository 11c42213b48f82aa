"""When things are due: times by key, waits that grow from try to try, and the draws that spread them.

Everything that looks random in a channel follows from a seed and from what it is for. The same channel,
replayed from the same inputs, draws the same numbers, so it sends the same bytes at the same times. Nothing
of a draw can be recognised from outside without the seed.

In a queue the lower number of equal times goes first. Entries that no longer hold stay in its heaps until
they come to the front, or until there are more of them than of the others.

Before trying again one waits ever longer: doubled from try to try, bounded, spread by a draw. The first wait
is exactly the stated period. Of later ones up to a quarter is taken off by the draw, so that those who lost
the same message at the same time do not repeat themselves together; none is ever longer than its nominal
length, so whoever acts at nominal times finds everything due.
"""

from collections.abc import Callable
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

_DRAW_BYTES: Final = 8
_DRAW_BITS: Final = 8 * _DRAW_BYTES

Draw: TypeAlias = Callable[[str, str, int], int]
"""An even number below 2**64 for (what it decides, message id, count): always one for the same arguments."""


def draw(seed: bytes, what: str, *parts: str | int) -> int:
    """A number from 0 to 2**64 - 1 for one purpose (`what`) and one occasion (`parts`: ids, counts)."""
    given = [seed, what.encode()]
    given += [str(part).encode() for part in parts]
    named = b"".join([len(part).to_bytes(8, "big") + part for part in given])
    return int.from_bytes(blake2b(named, digest_size=_DRAW_BYTES).digest(), "big")


def draw_below(bound: int, seed: bytes, what: str, *parts: str | int) -> int:
    """A draw from 0 to `bound` - 1; 0 where the bound is 1 or less."""
    return share(bound, draw(seed, what, *parts)) if bound > 1 else 0


def wait_ms(period_ms: int, tries: int, most_ms: int, drawn: int) -> int:
    """The wait after `tries` tries that brought nothing: `period_ms`, doubled each time, up to `most_ms`.

    `drawn` is an even number below 2**64; it counts for nothing when `tries` is 0.
    """
    # Shifting by more would only make a number that the bound cuts off.
    nominal = min(period_ms << min(tries, 40), most_ms)
    return nominal if tries == 0 else nominal - share(nominal // 4 + 1, drawn)


def share(limit: int, drawn: int) -> int:
    """An even number from 0 to `limit` - 1, made of one below 2**64 (0 when `limit` is 0)."""
    return limit * drawn >> _DRAW_BITS


def early_share(limit: int, group: int, drawn: int) -> int:
    """A number from 0 to `limit`, made of one below 2**64, that few of a group draw near `limit`.

    Of each doubling of `group` an equal part of the range is taken off: about one of the group draws a number
    at the far end, two lie in the part before it, four in the one before that, and half at the near end.
    """
    # The binary logarithm of 2**64 / drawn, in 1,024ths: exact at powers of two, straight lines between.
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
