"""Sets of ranks on a ring, kept as the runs that they make up."""

from collections.abc import Iterable, Iterator

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
        self.update((span,))

    def update(self, spans: Iterable[Span]) -> None:
        """Put in those of many spans."""
        runs, ring_size = self._runs, self._ring_size
        for start, size in spans:
            if not size:
                continue
            end = start + size
            if end > ring_size:
                runs.append((0, end - ring_size))
                end = ring_size
            # Most come in order, and many touch the one before.
            if len(runs) > self._tidy and runs[-1][1] == start:
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((start, end))
        if len(runs) > 2 * self._tidy + _UNTIDY:
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
