"""What one session of mode 1 knows of the remote's logs, and what the remote lacks by that.

It is kept beside the own logs and never joins them: what a remote shows is its word, until entries come.
Every own log gets settled once: as equal, as longer here, or as longer there. What is left at the end was
never mentioned (specification "replication", finalisation).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.wire.messages import LogHeight
from culm_models.reconciliation import OrderedSet, Span

_LOOK_UP: Final = 4_096


class Ledger:
    """The own sync range `held`, and what the remote turned out to hold of it.

    `differing` counts the logs of which one side holds more than the other.
    """

    __slots__ = (
        "_equal",
        "_heights",
        "_held",
        "_queued",
        "_session_id",
        "_settled",
        "_shown",
        "_silent",
        "differing",
    )

    def __init__(self, held: OrderedSet[LogHeight, bytes], session_id: int) -> None:
        self._held = held
        self._session_id = session_id
        self.differing = 0
        # What the remote named and no range has taken up yet: 0 for a log that it holds nothing of.
        self._shown: dict[LogKey, int] = {}
        self._heights: list[LogHeight] = []
        # Without what is equal, up to the end.
        self._settled = Ranks(len(held))
        self._equal = Ranks(len(held))
        self._silent = Ranks(len(held))
        self._queued: set[LogKey] = set()

    def show(self, items: Iterable[LogHeight]) -> None:
        """The remote named these."""
        shown = self._shown
        for public_key, log_id, seq_num in items:
            key = (public_key, log_id)
            if shown.get(key, -1) < seq_num:
                shown[key] = seq_num

    def equal(self, spans: Iterable[Span]) -> None:
        """The remote holds the same here."""
        self._equal.update(spans)

    def complete(self, spans: Sequence[Span]) -> list[EntryRange]:
        """The remote has named all that it holds here; returns what it lacks.

        Where that is very much, and nothing is held there, it is left to be found at the end.
        """
        if not self._shown:
            spans = [span for span in spans if span[1] <= _LOOK_UP]
        found: list[EntryRange] = []
        for span in spans:
            for log_height in self._held.items(*span):
                found += self._compare(log_height, self._shown.pop(log_height[:2], 0))
        self._settled.update(spans)
        return found

    def answered(self, spans: Iterable[Span]) -> list[EntryRange]:
        """The remote knows what we hold here and has named what it holds otherwise; returns what it lacks.

        What it did not name waits for `rest`, which knows what silence means.
        """
        found: list[EntryRange] = []
        for start, size in spans:
            for rank, log_height in enumerate(self._held.items(start, size), start):
                remote_height = self._shown.pop(log_height[:2], None)
                if remote_height is None:
                    self._silent.add((rank % len(self._held), 1))
                else:
                    found += self._compare(log_height, remote_height)
                    self._settled.add((rank % len(self._held), 1))
        return found

    def close_ranges(self) -> None:
        """All that was named has its range: what is left of it are logs that are not held here."""
        self.differing += sum(1 for seq_num in self._shown.values() if seq_num)
        self._shown.clear()

    def take_heights(self) -> list[LogHeight]:
        """Heights at which the remote holds logs that are held here too, as far as it named them lately."""
        taken, self._heights = self._heights, []
        return taken

    def close(self, *, silence_is_equal: bool) -> int:
        """The end: how many logs were never mentioned, which are to be sent whole."""
        if silence_is_equal:
            self.equal((start, end - start) for start, end in self._silent.runs())
        self._settled.update((start, end - start) for start, end in self._equal.runs())
        count = len(self._held) - len(self._settled)
        self.differing += count
        return count

    def never_mentioned(self) -> Iterator[EntryRange]:
        """Those logs, in the order of the set, looked up a few at a time."""
        for start, end in self._settled.gaps():
            for first in range(start, end, _LOOK_UP):
                for public_key, log_id, height in self._held.items(first, min(_LOOK_UP, end - first)):
                    yield EntryRange(self._session_id, public_key, log_id, 1, height)

    def equal_heights(self, most: int) -> list[LogHeight]:
        """The logs that were found to be equal in ranges; none where there are more than `most`."""
        if len(self._equal) > most:
            return []
        return [item for start, end in self._equal.runs() for item in self._held.items(start, end - start)]

    def _compare(self, log_height: LogHeight, remote_height: int) -> Iterator[EntryRange]:
        public_key, log_id, height = log_height
        if remote_height:
            self._heights.append((public_key, log_id, remote_height))
        # A remote that names a log again, with less, is not sent it again.
        if height == remote_height or (public_key, log_id) in self._queued:
            return
        self.differing += 1
        if height > remote_height:
            self._queued.add((public_key, log_id))
            yield EntryRange(self._session_id, public_key, log_id, remote_height + 1, height)


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
