"""Several peers that may have one log: one sends it, the others only say what they have (Plumtree's idea).

Who has sent nothing for too long, while another says that it has more than is here, is let go, and another is
asked anew: a proposal from what is held by then, since raised eagerness would miss what was only notified
(R53). No clock, no connection: what is seen of each source goes in, and what to do comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class SourceRole(StrEnum):
    """What a source is asked for."""

    SENDS = "sends"
    NOTIFIES = "notifies"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is seen of a source at a moment. `received` changes whenever it has sent something.

    `is_asked`: what it was asked for stands, or is being asked for. `notifies_missing`: it has what is not
    here.
    """

    received: tuple[float, ...] = ()
    is_asked: bool = True
    notifies_missing: bool = False


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What to do about a source: ask it for its role, in place of what was asked of it before."""

    source: str
    role: SourceRole
    is_failover: bool = False


class SourcePlan:
    """The sources of one log; times in seconds, on any clock that goes forward."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._roles: dict[str, SourceRole | None] = {}
        self._failed_s: dict[str, float] = {}
        self._sender: str | None = None
        self._received: tuple[float, ...] = ()
        self._moved_s = 0.0

    @property
    def sender(self) -> str | None:
        """The source that is asked for all."""
        return self._sender

    def decide(self, seen: Mapping[str, Sighting], now_s: float) -> list[SourceChange]:
        """Who is asked for what from now on, by all sources that there are now."""
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
        """Who is to take over, where the sender has stopped although there is more."""
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
        """Who has more, then who failed longest ago or never, then who came first."""
        never = float("-inf")
        return min(seen, key=lambda name: (not seen[name].notifies_missing, self._failed_s.get(name, never)))

    def _begin(self, name: str, now_s: float) -> SourceChange:
        self._sender, self._moved_s, self._received = name, now_s, ()
        self._roles[name] = SourceRole.SENDS
        return SourceChange(name, SourceRole.SENDS)
