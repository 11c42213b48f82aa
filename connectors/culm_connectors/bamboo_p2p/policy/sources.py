"""Chooses among the peers that may have a log: one sends it, the others only announce it (as in Plumtree).

A sender is replaced if it has sent nothing for too long while another source announces data that is missing
here. The successor gets a new proposal that starts from what is held, since raising the eagerness of the old
one would miss data that was only announced (R53). The plan has no clock and no connections: observations of
the sources are arguments, and the changes are returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class SourceRole(StrEnum):
    """Role of a source: it sends the log, or only announces its entries."""

    SENDS = "sends"
    NOTIFIES = "notifies"


@dataclass(frozen=True, slots=True)
class Sighting:
    """Observation of a source. `received` changes whenever the source has sent something.

    `is_asked`: a request to it is open or about to be made. `notifies_missing`: it announces data that is
    missing here.
    """

    received: tuple[float, ...] = ()
    is_asked: bool = True
    notifies_missing: bool = False


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A new role for a source, whose request replaces the earlier one."""

    source: str
    role: SourceRole
    is_failover: bool = False


class SourcePlan:
    """The sources of one log. Times in seconds of any monotonic clock."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._roles: dict[str, SourceRole | None] = {}
        self._failed_s: dict[str, float] = {}
        self._sender: str | None = None
        self._received: tuple[float, ...] = ()
        self._moved_s = 0.0

    @property
    def sender(self) -> str | None:
        """The source that sends the log, or None."""
        return self._sender

    def decide(self, seen: Mapping[str, Sighting], now_s: float) -> list[SourceChange]:
        """Return the role changes that follow from observations of all current sources."""
        self._roles = {name: self._roles.get(name) for name in seen}
        self._failed_s = {name: at_s for name, at_s in self._failed_s.items() if name in seen}
        if self._sender not in seen:
            self._sender = None
        changes: list[SourceChange] = []
        if self._sender is not None and (following := self._successor(self._sender, seen, now_s)) is not None:
            self._failed_s[self._sender] = now_s
            self._roles[self._sender] = SourceRole.NOTIFIES
            changes.append(SourceChange(self._sender, SourceRole.NOTIFIES, is_failover=True))
            changes.append(self._begin(following, now_s))
        elif self._sender is None and seen:
            changes.append(self._begin(self._best(seen), now_s))
        for name, role in self._roles.items():
            if role is None:
                self._roles[name] = SourceRole.NOTIFIES
                changes.append(SourceChange(name, SourceRole.NOTIFIES))
        return changes

    def _successor(self, sender: str, seen: Mapping[str, Sighting], now_s: float) -> str | None:
        """Return the source that has to take over from a stalled sender, or None."""
        others = {
            name: sighting
            for name, sighting in seen.items()
            if name != sender and sighting.notifies_missing and not self._has_failed(name, now_s)
        }
        if seen[sender].received != self._received or not others:
            self._received, self._moved_s = seen[sender].received, now_s
            return None
        if seen[sender].is_asked and now_s - self._moved_s < self._timeout_s:
            return None
        return self._best(others)

    def _has_failed(self, name: str, now_s: float) -> bool:
        return name in self._failed_s and now_s - self._failed_s[name] < self._timeout_s

    def _best(self, seen: Mapping[str, Sighting]) -> str:
        """Return the best source: one that announces missing data, then never failed or longest ago."""
        never = float("-inf")
        return min(seen, key=lambda name: (not seen[name].notifies_missing, self._failed_s.get(name, never)))

    def _begin(self, name: str, now_s: float) -> SourceChange:
        self._sender, self._moved_s, self._received = name, now_s, ()
        self._roles[name] = SourceRole.SENDS
        return SourceChange(name, SourceRole.SENDS)
