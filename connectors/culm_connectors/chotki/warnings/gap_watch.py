"""Finds gaps: produced entries of a connection that do not count. A gap ends the connection.

Reference 9.2, rule 3. An entry counts once everything that it builds on is there. The job waits a minute for
missing entries, and no epoch covers the entry before. A gap then shows as an epoch that covers the produced
entry, but whose vector stays below it. The next handshake announces the entries that count, and the peer's
diff fills the gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from culm_models.chotki.rdx import parse_vector
from culm_topics.chotki.records import EpochRecord


class _Place(NamedTuple):
    """A place in a topic: an epoch that covers `end` of the partition covers the entry."""

    is_commit: bool
    partition: int
    end: int


class _Produced(NamedTuple):
    pro: int
    place: _Place


@dataclass(slots=True)
class _Source:
    latest: _Produced
    asked: _Produced
    """The entry that epochs are checked for. Under load `latest` advances before any epoch covers it."""
    covered: int = -1
    """The highest entry that an epoch has covered."""
    blocked: int = -1
    """The covered entry that did not count; `since_s` is the time since when."""
    since_s: float = 0.0


class GapWatch:
    """Gaps of one connection. `packets` and `commit` note acknowledged entries, `check` checks an epoch."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._sources: dict[int, _Source] = {}

    def packets(self, entries: Mapping[int, int], partition: int, end: int) -> None:
        """Note the highest entry by source, in a partition of `chotki.packets` before the offset `end`."""
        self._produced(entries, _Place(False, partition, end))

    def commit(self, entries: Mapping[int, int], partition: int, end: int) -> None:
        """Note the entries of a sync, in a partition of `chotki.commits` before the offset `end`."""
        self._produced(entries, _Place(True, partition, end))

    def check(self, mark: EpochRecord, now_s: float) -> dict[int, int]:
        """Check an epoch. Returns, by source, the entry that has not counted for too long though covered."""
        vector = parse_vector(mark.vector)
        covered = {False: dict(mark.packets), True: dict(mark.commits)}
        gaps = {}
        for src, source in self._sources.items():
            is_commit, partition, end = source.asked.place
            if covered[is_commit].get(partition, 0) >= end:
                source.covered = max(source.covered, source.asked.pro)
                source.asked = source.latest
            entry = vector.get(src, -1)
            if entry >= source.covered:
                source.blocked = -1
            elif entry >= source.blocked:
                source.blocked, source.since_s = source.covered, now_s
            elif now_s - source.since_s >= self._wait_s:
                gaps[src] = source.blocked
        return gaps

    def _produced(self, entries: Mapping[int, int], position: _Place) -> None:
        for src, pro in entries.items():
            new = _Produced(pro, position)
            known = self._sources.get(src)
            if known is None:
                self._sources[src] = _Source(new, new)
            elif pro > known.latest.pro:
                if known.asked is known.latest and known.covered >= known.asked.pro:
                    known.asked = new
                known.latest = new
