"""The remote's logs as known in one session of mode 1, and the entries that the remote is missing.

This is kept beside the own logs and never joins them: the remote's heights are only claims until entries
arrive. Every own log is settled once: as equal, as longer here, or as longer there. Logs that are left at the
end were never mentioned (specification "replication", finalisation).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.wire.messages import LogHeight
from culm_models.reconciliation import OrderedSet, Span

_LOOK_UP: Final = 4_096


class RemoteHeights:
    """The own sync range `held`, and what is known of the remote's logs in it.

    `differing` counts the logs of which one side holds more than the other.
    """

    __slots__ = (
        "_equal",
        "_heights",
        "_own_heights",
        "_queued",
        "_session_id",
        "_settled",
        "_shown",
        "_silent",
        "differing",
    )

    def __init__(self, own_heights: OrderedSet[LogHeight, bytes], session_id: int) -> None:
        self._own_heights = own_heights
        self._session_id = session_id
        self.differing = 0
        # Heights that the remote named and that belong to no closed range yet; 0 for a log that it does not
        # hold.
        self._shown: dict[LogKey, int] = {}
        self._heights: list[LogHeight] = []
        # Excludes equal logs until the end.
        self._settled = Ranks(len(own_heights))
        self._equal = Ranks(len(own_heights))
        self._silent = Ranks(len(own_heights))
        self._queued: set[LogKey] = set()

    def show(self, items: Iterable[LogHeight]) -> None:
        """Note the heights that the remote named."""
        shown = self._shown
        for public_key, log_id, seq_num in items:
            key = (public_key, log_id)
            if shown.get(key, -1) < seq_num:
                shown[key] = seq_num

    def equal(self, spans: Iterable[Span]) -> None:
        """Note spans in which the remote holds the same heights."""
        self._equal.update(spans)

    def complete(self, spans: Sequence[Span]) -> list[EntryRange]:
        """Note spans of which the remote has named all its heights; returns what it is missing.

        Large spans in which the remote named nothing are left to the end.
        """
        if not self._shown:
            spans = [span for span in spans if span[1] <= _LOOK_UP]
        ranges: list[EntryRange] = []
        for span in spans:
            for log_height in self._own_heights.items(*span):
                ranges += self._compare(log_height, self._shown.pop(log_height[:2], 0))
        self._settled.update(spans)
        return ranges

    def answered(self, spans: Iterable[Span]) -> list[EntryRange]:
        """Note spans that we showed and the remote answered completely; returns what it is missing.

        Logs that it did not name wait for `close`, which knows the meaning of silence.
        """
        ranges: list[EntryRange] = []
        for start, size in spans:
            for rank, log_height in enumerate(self._own_heights.items(start, size), start):
                remote_height = self._shown.pop(log_height[:2], None)
                if remote_height is None:
                    self._silent.add((rank % len(self._own_heights), 1))
                else:
                    ranges += self._compare(log_height, remote_height)
                    self._settled.add((rank % len(self._own_heights), 1))
        return ranges

    def close_ranges(self) -> None:
        """Count the named logs that are left: all ranges are processed, so these are not held here."""
        self.differing += sum(1 for seq_num in self._shown.values() if seq_num)
        self._shown.clear()

    def take_heights(self) -> list[LogHeight]:
        """Return the recently named heights of logs that are held here, too."""
        taken, self._heights = self._heights, []
        return taken

    def close(self, *, silence_is_equal: bool) -> int:
        """End the session; returns the number of never mentioned logs, which are to be sent whole."""
        if silence_is_equal:
            self.equal((start, end - start) for start, end in self._silent.runs())
        self._settled.update((start, end - start) for start, end in self._equal.runs())
        count = len(self._own_heights) - len(self._settled)
        self.differing += count
        return count

    def never_mentioned(self) -> Iterator[EntryRange]:
        """Yield the logs that were never mentioned, in the order of the set, looked up a few at a time."""
        for start, end in self._settled.gaps():
            for first in range(start, end, _LOOK_UP):
                for public_key, log_id, height in self._own_heights.items(first, min(_LOOK_UP, end - first)):
                    yield EntryRange(self._session_id, public_key, log_id, 1, height)

    def equal_heights(self, limit: int) -> list[LogHeight]:
        """Return the logs that were found equal in ranges; an empty list if there are more than `limit`."""
        if len(self._equal) > limit:
            return []
        return [
            item for start, end in self._equal.runs() for item in self._own_heights.items(start, end - start)
        ]

    def _compare(self, log_height: LogHeight, remote_height: int) -> Iterator[EntryRange]:
        public_key, log_id, height = log_height
        if remote_height:
            self._heights.append((public_key, log_id, remote_height))
        # A remote that names a log again, with a lower height, is not sent the log again.
        if height == remote_height or (public_key, log_id) in self._queued:
            return
        self.differing += 1
        if height > remote_height:
            self._queued.add((public_key, log_id))
            yield EntryRange(self._session_id, public_key, log_id, remote_height + 1, height)


_UNTIDY = 4_096


class Ranks:
    """A subset of the ranks 0 to `ring_size` - 1, in at most a few thousand runs more than necessary."""

    __slots__ = ("_ring_size", "_runs", "_tidy")

    def __init__(self, ring_size: int) -> None:
        self._ring_size = ring_size
        # As (start, end); the first `_tidy` of them are in order and separate from each other.
        self._runs: list[tuple[int, int]] = []
        self._tidy = 0

    def add(self, span: Span) -> None:
        """Add the ranks of a span; the set may contain some of them already."""
        self.update((span,))

    def update(self, spans: Iterable[Span]) -> None:
        """Add the ranks of many spans."""
        runs, ring_size = self._runs, self._ring_size
        for start, size in spans:
            if not size:
                continue
            end = start + size
            if end > ring_size:
                runs.append((0, end - ring_size))
                end = ring_size
            # Most spans come in order, and many touch the one before.
            if len(runs) > self._tidy and runs[-1][1] == start:
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((start, end))
        if len(runs) > 2 * self._tidy + _UNTIDY:
            self._join()

    def runs(self) -> list[tuple[int, int]]:
        """Return start and end of each run, in order; no two runs touch."""
        self._join()
        return self._runs

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of each gap between the runs."""
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
