"""Sets of ranks on a ring, kept as the runs that they make up."""

from collections.abc import Iterator

from culm_models.reconciliation import Span

_UNTIDY = 4_096


class Ranks:
    """Some of the ranks 0 to `ring_size` - 1, at most a few thousand runs more than they need."""

    __slots__ = ("_ring_size", "_runs", "_tidy")

    def __init__(self, ring_size: int) -> None:
        self._ring_size = ring_size
        # As (start, end), the first `_tidy` of them in order and apart from each other.
        self._runs: list[tuple[int, int]] = []
        self._tidy = 0

    def add(self, span: Span) -> None:
        """Put in the ranks of a span; some of them may be in already."""
        start, size = span
        end = start + size
        if not size:
            return
        self._runs.append((start, min(end, self._ring_size)))
        if end > self._ring_size:
            self._runs.append((0, end - self._ring_size))
        if len(self._runs) > 2 * self._tidy + _UNTIDY:
            self._join()

    def runs(self) -> list[tuple[int, int]]:
        """Start and end of each run, in order; no two touch."""
        self._join()
        return self._runs

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Start and end of what lies between."""
        before = 0
        for start, end in self.runs():
            if before < start:
                yield before, start
            before = end
        if before < self._ring_size:
            yield before, self._ring_size

    def __len__(self) -> int:
        return sum(end - start for start, end in self.runs())

    def _join(self) -> None:
        if self._tidy == len(self._runs):
            return
        self._runs.sort()
        joined: list[tuple[int, int]] = []
        for start, end in self._runs:
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        self._runs = joined
        self._tidy = len(joined)
