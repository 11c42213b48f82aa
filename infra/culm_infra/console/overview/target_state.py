"""A target over time: its latest reading, the time of its latest change, rates, and severity.

Severity is 0 (well), 1 (worth a look), 2 (needs attention) or 3 (failed).
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

from culm_infra.console.overview.rates import LAG_RECORDS, LagWatch, Rates
from culm_infra.console.overview.reading import Kind, NoReading, QueryReading, State, TargetReading
from culm_infra.console.overview.targets import Target, target_id

_SEVERITY: Final[Mapping[State, int]] = {
    "ready": 0,
    "draining": 1,
    "not_ready": 2,
    "older": 2,
    "refused": 2,
    "unknown": 2,
    "down": 3,
}
_QUERY_SEVERITY: Final = {"stalled": 2, "restarting": 2}
_RECENT_MS: Final = 600_000


class TargetState:
    """State of one target. `fail` and `take` return whether the state or the severity changed."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.state: State = "unknown"
        self.kind: Kind = target.kind
        self.down_since_s: float | None = None
        """Monotonic time since which nothing has run there."""
        self._id = target_id(target)
        self._reasons: Sequence[str] = ("no answer yet",)
        self._latest: TargetReading | None = None
        self._is_current = False
        self._since_ms = _now_ms()
        self._seen_ms: int | None = None
        self._rates = Rates()
        self._lag = LagWatch()
        self._severity = 0

    def take(self, reading: TargetReading, now_s: float) -> bool:
        """Replace the latest reading."""
        was_unseen = self._seen_ms is None
        if self._latest is not None and self._latest.started_ms != reading.started_ms:
            self._rates.clear()
        self._latest, self._is_current, self._seen_ms = reading, True, _now_ms()
        self.kind, self.down_since_s = reading.kind, None
        self._rates.add(now_s, dict(_totals(reading)))
        self._lag.add(now_s, _lag_of(reading))
        changed = self._set(reading.state, reading.reasons)
        if was_unseen and reading.state == "ready" and reading.started_ms is not None:
            self._since_ms = reading.started_ms
        return changed

    def fail(self, failure: NoReading, now_s: float) -> bool:
        """Note that the target has no reading now."""
        self._is_current = False
        self._rates.clear()
        self._lag.add(now_s, None)
        if failure.state != "down":
            self.down_since_s = None
        elif self.down_since_s is None:
            self.down_since_s = now_s
        return self._set(failure.state, (failure.reason,))

    def _set(self, state: State, reasons: Sequence[str]) -> bool:
        is_changed = state != self.state
        if is_changed:
            self.state, self._since_ms = state, _now_ms()
        self._reasons = reasons
        before, self._severity = self._severity, self._weigh()
        return is_changed or before != self._severity

    def _weigh(self) -> int:
        severity = _SEVERITY[self.state]
        reading = self._latest
        if self._is_current and reading is not None:
            if self._lag.grows:
                severity = max(severity, 2)
            elif (_lag_of(reading) or 0) >= LAG_RECORDS:
                severity = max(severity, 1)
            for query in reading.queries:
                severity = max(severity, _QUERY_SEVERITY.get(query.state, 0), _failed_lately(query))
        return severity

    @property
    def is_answering(self) -> bool:
        """Whether there was no answer yet, or the latest one was a reading."""
        return self._is_current or self._seen_ms is None

    @property
    def order(self) -> tuple[int, int, str, str]:
        """Key of the order in lists: failed and lagging first."""
        lag = _lag_of(self._latest) if self._is_current and self._latest is not None else None
        return -self._severity, -(lag or 0), self._name, self._id

    @property
    def _name(self) -> str:
        return (None if self._latest is None else self._latest.name) or self.target.name

    def document(self) -> dict[str, Any]:
        """Return the edge or job as the API has it."""
        latest = self._latest
        reasons = list(self._reasons)
        if self._is_current and self._lag.grows:
            reasons.append("the lag has not shrunk for half a minute")
        common = {
            "id": self._id,
            "name": self._name,
            "target": self.target.text,
            "source": self.target.source,
            "state": self.state,
            "severity": self._severity,
            "reasons": reasons,
            "version": None if latest is None else latest.version,
            "since_ms": self._since_ms,
            "seen_ms": self._seen_ms,
        }
        warnings = [] if latest is None else list(latest.warnings)
        own = self._as_edge(latest) if self.kind == "edge" else self._as_job(latest)
        return {**common, **own, "warnings": warnings}

    def _as_edge(self, latest: TargetReading | None) -> dict[str, Any]:
        reading = latest if self._is_current else None
        protocols: list[dict[str, Any]] = [
            {
                "name": each.name,
                "ready": each.ready,
                "connections": each.connections,
                "lag_records": each.lag_records,
                "received_bytes_per_s": self._rates.of((each.name, "received")),
                "sent_bytes_per_s": self._rates.of((each.name, "sent")),
                "rejected": each.rejected,
                "sessions_failed": each.sessions_failed,
            }
            for each in (() if reading is None else reading.protocols)
        ]
        return {
            "peer_id": None if latest is None else latest.peer_id,
            "peers": None if reading is None else sum(each.connections for each in reading.protocols),
            "lag_records": None if reading is None else _lag_of(reading),
            "last_progress_ms": None if latest is None else latest.last_progress_ms,
            "received_bytes_per_s": _sum(each["received_bytes_per_s"] for each in protocols),
            "sent_bytes_per_s": _sum(each["sent_bytes_per_s"] for each in protocols),
            "rejected": None if reading is None else sum(each.rejected for each in reading.protocols),
            "protocols": protocols,
        }

    def _as_job(self, latest: TargetReading | None) -> dict[str, Any]:
        return {
            "queries": [
                {
                    "job": each.job,
                    "state": each.state if self._is_current else "down",
                    "lag_records": each.lag_records if self._is_current else None,
                    "rows_per_second": self._rows_per_second(each) if self._is_current else None,
                    "checkpoint_ms": each.checkpoint_ms,
                    "failures": each.failures,
                    "rejected": each.rejected,
                    "state_rows": each.state_rows,
                    "last_error": each.last_error,
                }
                for each in (() if latest is None else latest.queries)
            ]
        }

    def _rows_per_second(self, query: QueryReading) -> float | None:
        return self._rates.of((query.job, "rows")) if query.rows_per_second is None else query.rows_per_second


def _totals(reading: TargetReading) -> Iterator[tuple[Hashable, float]]:
    for protocol in reading.protocols:
        if protocol.received_bytes is not None:
            yield (protocol.name, "received"), protocol.received_bytes
        if protocol.sent_bytes is not None:
            yield (protocol.name, "sent"), protocol.sent_bytes
    for query in reading.queries:
        if query.rows_in is not None:
            yield (query.job, "rows"), query.rows_in


def _lag_of(reading: TargetReading) -> int | None:
    """Return the lag of all protocols and queries; None if no lag is known."""
    lags = [protocol.lag_records for protocol in reading.protocols]
    lags += [query.lag_records for query in reading.queries]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def _failed_lately(query: QueryReading) -> int:
    time_ms = None if query.last_error is None else query.last_error["time_ms"]
    return int(time_ms is not None and _now_ms() - time_ms < _RECENT_MS)


def _sum(rates: Iterator[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 3) if known else None


def _now_ms() -> int:
    return int(time.time() * 1000)
