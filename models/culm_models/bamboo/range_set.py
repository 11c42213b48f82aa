"""Sets of numbers stored as runs, for the held entries and payloads of a log and for passed pieces.

The held part of a log may have gaps, so a single height cannot describe it. Runs are half-open, ascending,
and never adjacent.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class RangeSet:
    """A set of non-negative integers. Its size in memory depends on the number of runs."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add the numbers from `start` up to, not including, `end`."""
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
        """Add numbers like `add`.

        If this makes more than `max_runs` runs, also fill the gap before the last run.
        """
        self.add(start, end)
        if len(self._starts) > max_runs:
            del self._starts[-1], self._ends[-2]

    def remove(self, start: int, end: int) -> None:
        """Remove the numbers from `start` up to, not including, `end`."""
        starts, ends = self._starts, self._ends
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if start >= end or first >= last:
            return
        kept = [(starts[first], start), (end, ends[last - 1])]
        kept = [(low, high) for low, high in kept if low < high]
        starts[first:last] = [low for low, _ in kept]
        ends[first:last] = [high for _, high in kept]

    def end_of_run(self, number: int) -> int:
        """Return the first number from `number` on that is not in the set; it can be `number` itself."""
        index = bisect_right(self._starts, number) - 1
        return max(number, self._ends[index]) if index >= 0 else number

    def next_member(self, number: int) -> int | None:
        """Return the first number from `number` on that is in the set, or None if there is none."""
        index = bisect_right(self._ends, number)
        return max(number, self._starts[index]) if index < len(self._starts) else None

    def covers(self, start: int, end: int) -> bool:
        """Whether every number from `start` up to, not including, `end` is in the set."""
        return start >= end or self.end_of_run(start) >= end

    def __contains__(self, number: int) -> bool:
        return self.end_of_run(number) > number

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the runs as (start, end), in ascending order."""
        return zip(tuple(self._starts), tuple(self._ends), strict=True)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._starts == other._starts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]

    def without(self, other: "RangeSet") -> "RangeSet":
        """Return the numbers of this set that are not in `other`."""
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
        """Number of integers in the set."""
        return sum(self._ends) - sum(self._starts)

    @property
    def highest(self) -> int | None:
        """The largest number in the set, or None if it is empty."""
        return self._ends[-1] - 1 if self._ends else None
