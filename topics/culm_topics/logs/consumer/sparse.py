"""The entries seen of logs beyond their gap-free part, and the reader's position in a log.

Memory: about 100 bytes for each run of entries without a gap between them. Beyond `MAX_SPARSE_RUNS` runs
entries are still handed out but not remembered: a repeat is handed out again, and `LogCoverage` does not
include it. Such entries are counted. A `LogPosition` is computed on request: iterating over all logs takes 8
bytes per log meanwhile.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.range_set import RangeSet
from culm_topics.logs.consumer.heights import LogHeights

MAX_SPARSE_RUNS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LogCoverage:
    """Entries of a log that its reader has: 1 to `height`, then `sparse` runs (end exclusive)."""

    height: int
    sparse: tuple[tuple[int, int], ...] = ()

    @property
    def highest(self) -> int:
        """The highest sequence number seen; 0 if there is none."""
        return self.sparse[-1][1] - 1 if self.sparse else self.height

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """All entries seen, from the first on, each end exclusive."""
        return ((1, self.height + 1), *self.sparse) if self.height else self.sparse

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """The runs of entries below the highest one that were not seen, each end exclusive."""
        ends = (self.height + 1, *(end for _, end in self.sparse))
        gaps = ((end, start) for end, (start, _) in zip(ends, self.sparse, strict=False))
        return tuple((end, start) for end, start in gaps if end < start)

    def has(self, seq_num: int) -> bool:
        """Whether the entry was seen."""
        if seq_num <= self.height:
            return seq_num >= 1
        run = bisect_right(self.sparse, (seq_num, 2**64)) - 1
        return run >= 0 and seq_num < self.sparse[run][1]

    def missing_of_pool(self, seq_num: int) -> tuple[int, ...]:
        """Return the missing entries of an entry's certificate pool, itself included, ascending.

        Elements above the highest entry seen do not count: they may not exist yet.
        """
        pool = {*lower_pool(seq_num), *(number for number in upper_pool(seq_num) if number <= self.highest)}
        return tuple(number for number in sorted(pool) if not self.has(number))

    def is_provable(self, seq_num: int) -> bool:
        """Whether the entry and its certificate pool, which prove that it is in this log, were seen."""
        return 1 <= seq_num <= self.highest and not self.missing_of_pool(seq_num)


class SparseEntries:
    """The runs by log key, above each log's height in `heights`."""

    def __init__(self, heights: LogHeights, *, max_runs: int = MAX_SPARSE_RUNS) -> None:
        self._heights = heights
        self._max_runs = max_runs
        self._logs: dict[bytes, tuple[int, RangeSet]] = {}
        self._runs = 0
        self.not_remembered = 0
        """Number of entries seen that are not remembered, because the limit was reached."""

    def __len__(self) -> int:
        """Return the number of remembered runs."""
        return self._runs

    def add(self, key: bytes, seq_num: int, partition: int) -> bool:
        """Record an entry seen in this partition. Returns whether it is new and beyond its log's height."""
        if seq_num <= self._heights.height(key):
            return False
        known = self._logs.get(key)
        if known is not None and seq_num in known[1]:
            return False
        if self._runs >= self._max_runs:
            self.not_remembered += 1
            return True
        _, entries = self._logs.setdefault(key, (partition, RangeSet()))
        self._runs -= len(entries)
        entries.add(seq_num, seq_num + 1)
        self._runs += len(entries)
        return True

    def reached(self, key: bytes, height: int) -> None:
        """Drop the runs up to `height`, which the log has reached without a gap."""
        known = self._logs.get(key)
        if known is None:
            return
        _, entries = known
        self._runs -= len(entries)
        entries.remove(1, height + 1)
        self._runs += len(entries)
        if not len(entries):
            del self._logs[key]

    def coverage(self, key: bytes) -> LogCoverage:
        """Return what was seen of the log."""
        height = self._heights.height(key)
        self.reached(key, height)
        known = self._logs.get(key)
        return LogCoverage(height, tuple(known[1]) if known is not None else ())

    def log_keys(self) -> Iterator[bytes]:
        """Iterate over the keys of the logs of which something was seen beyond a gap."""
        return iter(self._logs)

    def drop(self, partitions: Iterable[int]) -> None:
        """Forget what was seen in these partitions: another reader has them now."""
        gone = frozenset(partitions)
        self._logs = {key: known for key, known in self._logs.items() if known[0] not in gone}
        self._runs = sum(len(entries) for _, entries in self._logs.values())


Runs = tuple[tuple[int, int], ...]
"""Sequence numbers as runs in order, each end exclusive."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """One log (public key and number, and the flavour of its hashes) as its reader has it.

    `coverage`: entries handed out. `waiting`: entries that arrived and wait for an earlier one. `missing`:
    entries that did not arrive, but are known from a later one or from a gap. `is_set_aside`: nothing more of
    the log is handed out in order before its first missing entry arrives.
    """

    log: tuple[bytes, int]
    flavour: HashFlavour
    coverage: LogCoverage
    waiting: Runs = ()
    missing: Runs = ()
    is_set_aside: bool = False

    @property
    def handed_out(self) -> Runs:
        """All entries handed out, in order or as fragments; by the group, if there is one."""
        return self.coverage.runs

    @property
    def is_whole(self) -> bool:
        """Whether no entry is known to be missing."""
        return not self.missing


def log_position(
    log: tuple[bytes, int],
    flavour: HashFlavour,
    coverage: LogCoverage,
    waiting: Iterable[int],
    missing_seq_num: int | None,
) -> LogPosition:
    """Combine the entries handed out, the waiting ones, and the entry for which a log was set aside."""
    waits = RangeSet()
    for seq_num in sorted(waiting):
        waits.add(seq_num, seq_num + 1)
    missing = RangeSet()
    for start, end in coverage.missing:
        missing.add(start, end)
    if (highest := waits.highest) is not None and highest > coverage.highest:
        missing.add(coverage.highest + 1, highest)
    if missing_seq_num is not None and not coverage.has(missing_seq_num):
        missing.add(missing_seq_num, missing_seq_num + 1)
    return LogPosition(
        log,
        flavour,
        coverage,
        tuple(waits),
        tuple(missing.without(waits)),
        is_set_aside=missing_seq_num is not None,
    )
