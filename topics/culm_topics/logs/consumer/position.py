"""Where a reader is in one log: what it has handed out, as runs, and what is missing between, by number.

Memory: a position is made when it is asked for. To walk over all logs takes 8 bytes a log meanwhile.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.range_set import RangeSet
from culm_topics.logs.consumer.sparse import LogCoverage

Runs = tuple[tuple[int, int], ...]
"""Sequence numbers as runs in order, each end exclusive."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """One log (public key and number, and the flavour of its hashes) as its reader has it.

    `coverage`: what was handed out. `waiting`: entries that came and wait for one before them. `missing`:
    entries that are known of by a later one, or by a gap, and did not come. `is_set_aside`: nothing more of
    the log is handed out in order before its first missing entry comes.
    """

    log: tuple[bytes, int]
    flavour: HashFlavour
    coverage: LogCoverage
    waiting: Runs = ()
    missing: Runs = ()
    is_set_aside: bool = False

    @property
    def handed_out(self) -> Runs:
        """All entries that were handed out, in order or as fragments; by the group, where there is one."""
        return self.coverage.runs

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.missing


def log_position(
    log: tuple[bytes, int],
    flavour: HashFlavour,
    coverage: LogCoverage,
    waiting: Iterable[int],
    missing_seq_num: int | None,
) -> LogPosition:
    """What is handed out, what waits, and the entry for which a log was set aside, put together."""
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
