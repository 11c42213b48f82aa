"""What a connection has brought and what does not count: a gap ends the connection (reference 9.2, rule 3).

An entry counts once everything is there that it builds on. The job reports what has waited too long; the edge
sees it in the epochs: one that covers what the connection produced (none does while the job waits, which is a
minute), and whose vector stays below it. The next handshake then announces what counts, and the peer's diff
brings the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from culm_models.chotki.rdx import parse_vector
from culm_topics.chotki.records import EpochRecord


class _Place(NamedTuple):
    """Behind this offset of a partition an epoch has an entry."""

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
    """What the next epochs are asked for; the latest one moves on, under load before any epoch has it."""
    covered: int = -1
    """The highest entry that an epoch has covered."""
    blocked: int = -1
    """The covered entry that did not count, and since when."""
    since_s: float = 0.0


class GapWatch:
    """For one connection; `produced` is told what Kafka has acknowledged, `check` of every epoch."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._sources: dict[int, _Source] = {}

    def packets(self, entries: Mapping[int, int], partition: int, end: int) -> None:
        """Packets: by source the highest entry, in a partition of `chotki.packets` before this offset."""
        self._produced(entries, _Place(False, partition, end))

    def commit(self, entries: Mapping[int, int], partition: int, end: int) -> None:
        """A sync's entries, in a partition of `chotki.commits`."""
        self._produced(entries, _Place(True, partition, end))

    def check(self, mark: EpochRecord, now_s: float) -> dict[int, int]:
        """By source: the entry that has not counted for too long although the epoch has it."""
        vector = parse_vector(mark.vector)
        covered = {False: dict(mark.packets), True: dict(mark.commits)}
        gaps = {}
        for src, one in self._sources.items():
            is_commit, partition, end = one.asked.place
            if covered[is_commit].get(partition, 0) >= end:
                one.covered = max(one.covered, one.asked.pro)
                one.asked = one.latest
            entry = vector.get(src, -1)
            if entry >= one.covered:
                one.blocked = -1
            elif entry >= one.blocked:
                one.blocked, one.since_s = one.covered, now_s
            elif now_s - one.since_s >= self._wait_s:
                gaps[src] = one.blocked
        return gaps

    def _produced(self, entries: Mapping[int, int], place: _Place) -> None:
        for src, pro in entries.items():
            new = _Produced(pro, place)
            known = self._sources.get(src)
            if known is None:
                self._sources[src] = _Source(new, new)
            elif pro > known.latest.pro:
                if known.asked is known.latest and known.covered >= known.asked.pro:
                    known.asked = new
                known.latest = new
