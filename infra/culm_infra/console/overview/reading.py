"""One reading of a target: what a connector or a process of jobs says about itself, and why it says nothing.

Only what the overview shows is kept, so that documents of any size take little memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["edge", "job"]
Source = Literal["socket", "metrics"]
State = Literal["ready", "not_ready", "draining", "down", "older", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class ProtocolReading:
    """One protocol of a connector. Bytes, rejected data and failed sessions are totals since its start."""

    name: str
    ready: bool | None
    connections: int
    lag_records: int | None
    received_bytes: int | None
    sent_bytes: int | None
    rejected: int
    sessions_failed: int | None


@dataclass(frozen=True, slots=True)
class QueryReading:
    """One query of a process of jobs.

    `rows_in` is a total since its start; `checkpoint_ms` is the time of its last commit.
    """

    job: str
    state: str
    lag_records: int | None
    rows_in: int | None
    rows_per_second: float | None
    checkpoint_ms: int | None
    failures: int
    rejected: int
    state_rows: int | None
    last_error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class TargetReading:
    """State of a process at one time. `name` is None if the process does not say what it is."""

    kind: Kind
    state: State
    reasons: Sequence[str] = ()
    name: str | None = None
    version: str | None = None
    peer_id: str | None = None
    started_ms: int | None = None
    last_progress_ms: int | None = None
    protocols: Sequence[ProtocolReading] = ()
    queries: Sequence[QueryReading] = ()
    warnings: Sequence[Mapping[str, Any]] = ()


class NoReading(Exception):
    """A target has no reading: it is down, refuses, has another version, or its answer is malformed."""

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason


def running_state(*, is_ready: bool, reasons: Sequence[str], words: str | None = None) -> State:
    """Return the state of a process that answers; `words` is its own word for what it does."""
    if is_ready:
        return "ready"
    said = [*reasons, words or ""]
    return "draining" if any(each.startswith("draining") for each in said) else "not_ready"
