"""Waiting for the topics to say what they should: how long it took, and what was missing when time was up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Unit = Literal["entries", "forks", "logs"]

SHOWN_LOGS = 8
"""Of the logs that an unmet condition is about, the report names this many; a line names fewer."""
_LISTED_LOGS = 2


@dataclass(frozen=True, slots=True)
class LogGap:
    """A log that is not as high as it should be. ``log`` is the public key in hex, a slash, the log id."""

    log: str
    held: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Unmet:
    """A condition that does not hold: so much is missing on a topic, for a peer where it is about one."""

    topic: str
    peer: str | None
    count: int
    unit: Unit
    logs: tuple[LogGap, ...] = ()

    def __str__(self) -> str:
        whose = f" of {self.peer}" if self.peer is not None else ""
        unit = self.unit if self.count != 1 else {"entries": "entry"}.get(self.unit, self.unit[:-1])
        gaps = "; ".join(f"{gap.log}: {gap.held} of {gap.wanted}" for gap in self.logs[:_LISTED_LOGS])
        gaps += "; …" * (len(self.logs) > _LISTED_LOGS)
        return f"{self.topic}{whose}: {self.count} {unit}" + (f" ({gaps})" if gaps else "")


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait for the topics; nothing is missing where it ended well."""

    chapter: str
    waited_s: float
    missing: tuple[Unmet, ...]


def listed(missing: Iterable[Unmet]) -> str:
    """What is missing, on one line."""
    return ", ".join(map(str, missing))
