"""Every write of a run has a number, as has every read from a peer.

A plan says at which of them somebody is killed, or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Fault(Enum):
    """What happens instead of a write."""

    KILL = auto()
    """Whoever would write is killed before."""
    FAIL = auto()
    """Kafka refuses this record, and takes those behind it."""
    STALL = auto()
    """Kafka takes this record after a while."""
    LOSE = auto()
    """Whoever would write is killed before, and its disk is gone: a job's checkpoint, an edge's folder."""


@dataclass(slots=True)
class Writes:
    """The writes of one run, as they come; `log` says who wrote what."""

    plan: Mapping[int, Fault] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    lost_disks: set[str] = field(default_factory=set)
    """Who begins anew without what it kept."""

    def next(self, who: str, what: str) -> Fault | None:
        """The next write: what is to happen to it."""
        number = len(self.log)
        self.log.append((who, what))
        fault = self.plan.get(number)
        if fault is Fault.LOSE:
            self.lost_disks.add(who)
        return fault
