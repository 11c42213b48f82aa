"""Sets of numbers kept as runs: which entries of a log are held, which payloads, which pieces were passed.

What is held of a log may have holes, so a single height cannot say it. Runs are half open, in order, and
never touch each other.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class RangeSet:
    """A set of numbers from 0 on; its size in memory is that of its runs."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Put in the numbers from `start` up to, without, `end`."""
        if start >= end:
            return
        starts, ends = self._starts, self._ends
        if ends and start == ends[-1]:
            ends[-1] = end
            return
        first = bisect_left(ends, start)
        last = bisect_right(starts, end)
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last], ends[first:last] = [start], [end]

    def add_coarsely(self, start: int, end: int, max_runs: int) -> None:
        """As `add`; where it makes more than `max_runs` runs, what lies between the last two goes in, too."""
        self.add(start, end)
        if len(self._starts) > max_runs:
            del self._starts[-1], self._ends[-2]

    def remove(self, start: int, end: int) -> None:
        """Take out the numbers from `start` up to, without, `end`."""
        starts, ends = self._starts, self._ends
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if start >= end or first >= last:
            return
        kept = [(starts[first], start), (end, ends[last - 1])]
        kept = [(low, high) for low, high in kept if low < high]
        starts[first:last] = [low for low, _ in kept]
        ends[first:last] = [high for _, high in kept]

    def end_of_run(self, number: int) -> int:
        """The first number from `number` on that is not in the set; `number` itself where it is not."""
        found = bisect_right(self._starts, number) - 1
        return max(number, self._ends[found]) if found >= 0 else number

    def next_member(self, number: int) -> int | None:
        """The first number from `number` on that is in the set."""
        found = bisect_right(self._ends, number)
        return max(number, self._starts[found]) if found < len(self._starts) else None

    def covers(self, start: int, end: int) -> bool:
        """Whether every number from `start` up to, without, `end` is in the set."""
        return start >= end or self.end_of_run(start) >= end

    def __contains__(self, number: int) -> bool:
        return self.end_of_run(number) > number

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The runs, as (start, end), in order."""
        return zip(tuple(self._starts), tuple(self._ends), strict=True)

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._starts == other._starts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]

    def without(self, other: "RangeSet") -> "RangeSet":
        """The numbers of this set that are not in `other`."""
        left = RangeSet()
        for start, end in self:
            at: int | None = start
            while at is not None and at < end:
                at = other.end_of_run(at)
                following = other.next_member(at)
                left.add(at, end if following is None else min(end, following))
                at = following
        return left

    @property
    def count(self) -> int:
        """How many numbers are in the set."""
        return sum(self._ends) - sum(self._starts)

    @property
    def highest(self) -> int | None:
        """The largest number in the set."""
        return self._ends[-1] - 1 if self._ends else None
