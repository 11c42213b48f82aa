"""Metrics of a connector or a job as a reading.

Lines of other families are dropped before the text is parsed, as parsing is slow and a histogram has many.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from culm_infra.console.overview.reading import (
    NoReading,
    ProtocolReading,
    QueryReading,
    TargetReading,
    running_state,
)
from culm_infra.console.overview.values import count, number, text, whole

_OURS: Final = re.compile(rb"^culm_", re.MULTILINE)
MAX_LINES: Final = 20_000
_MAX_LINE: Final = 2_000
_MAX_NAMES: Final = 64

_PROGRESS: Final = "culm_last_progress_timestamp_seconds"
_EDGE: Final = (
    "culm_connections",
    "culm_received_bytes_total",
    "culm_rejected_total",
    "culm_sent_bytes_total",
    "culm_sessions_failed_total",
    "culm_topic_lag_records",
)
_JOB: Final = (
    "culm_job_checkpoint_timestamp_seconds",
    "culm_job_failures_total",
    "culm_job_lag_records",
    "culm_job_rejected_total",
    "culm_job_rows_in_total",
    "culm_job_state_rows",
    "culm_job_up",
)
_COMMON: Final = (
    "culm_build_info",
    "culm_connector_ready",
    "culm_job_ready",
    _PROGRESS,
    "process_start_time_seconds",
)
NAMES: Final = frozenset({*_EDGE, *_JOB, *_COMMON})


@dataclass(slots=True)
class _Samples:
    """Sums of samples by the name of their family, and by the value of one label."""

    sums: dict[str, float] = field(default_factory=dict)
    by_label: dict[tuple[str, str], float] = field(default_factory=dict)
    labels: dict[str, None] = field(default_factory=dict)
    """Protocols of a connector, or queries of jobs, in their order."""
    version: str | None = None

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        if name == "culm_build_info":
            self.version = text(labels.get("version"), 40)
        if (checked := number(value)) is None:
            return
        self.sums[name] = self.sums.get(name, 0.0) + checked
        label = labels.get("protocol") or labels.get("query")
        if label and (label in self.labels or len(self.labels) < _MAX_NAMES):
            self.labels[label] = None
            self.by_label[name, label] = self.by_label.get((name, label), 0.0) + checked

    def whole(self, name: str, label: str) -> int | None:
        return whole(self.by_label.get((name, label)))

    def time_ms(self, name: str, label: str) -> int | None:
        return _ms(self.by_label.get((name, label)))


def read_metrics(body: bytes, reasons: Sequence[str], *, is_ready: bool) -> TargetReading:
    """Return the reading of metrics as text; `reasons` and `is_ready` are the answer of `/readyz`.

    Raises `NoReading` if they are not metrics of Culm, or of an older version.
    """
    samples = _Samples()
    has_ours = False
    try:
        for name, labels, value in _parsed(_wanted(body.decode())):
            has_ours |= name.startswith("culm_")
            samples.add(name, labels, value)
    except (ValueError, KeyError, IndexError):
        raise NoReading("unknown", "the answer is not the text of Prometheus metrics") from None
    state = running_state(is_ready=is_ready, reasons=reasons)
    started_s = samples.sums.get("process_start_time_seconds")
    started_ms = None if started_s is None else int(started_s * 1000)
    if "culm_connector_ready" in samples.sums:
        return TargetReading(
            kind="edge",
            state=state,
            reasons=reasons,
            version=samples.version,
            started_ms=started_ms,
            last_progress_ms=_ms(samples.sums.get(_PROGRESS)),
            protocols=tuple(_protocol(samples, name) for name in samples.labels),
        )
    if "culm_job_ready" in samples.sums:
        queries = tuple(_query(samples, name) for name in samples.labels)
        return TargetReading(
            kind="job",
            state=state,
            reasons=reasons,
            version=samples.version,
            started_ms=started_ms,
            last_progress_ms=max(
                filter(None, (samples.time_ms(_PROGRESS, name) for name in samples.labels)), default=None
            ),
            queries=queries,
        )
    if has_ours or _OURS.search(body):
        raise NoReading(
            "older",
            "the metrics have neither culm_connector_ready nor culm_job_ready: another version of Culm",
        )
    raise NoReading("unknown", "this address serves no metrics of Culm")


def _wanted(body: str) -> Iterator[str]:
    lines = 0
    for line in body.splitlines():
        if line.startswith("#") or len(line) > _MAX_LINE:
            continue
        if line.partition("{")[0].partition(" ")[0] in NAMES:
            yield line
            lines += 1
            if lines >= MAX_LINES:
                return


def _parsed(lines: Iterable[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Parse samples. Their families are undeclared, so that each sample has the name of its line."""
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families("\n".join(lines)):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def _protocol(samples: _Samples, name: str) -> ProtocolReading:
    return ProtocolReading(
        name=text(name, 40) or "",
        ready=None,
        connections=samples.whole("culm_connections", name) or 0,
        lag_records=samples.whole("culm_topic_lag_records", name),
        received_bytes=samples.whole("culm_received_bytes_total", name),
        sent_bytes=samples.whole("culm_sent_bytes_total", name),
        rejected=count(samples.whole("culm_rejected_total", name)),
        sessions_failed=samples.whole("culm_sessions_failed_total", name),
    )


def _query(samples: _Samples, name: str) -> QueryReading:
    is_up = samples.by_label.get(("culm_job_up", name)) == 1
    return QueryReading(
        job=text(name, 80) or "",
        state="running" if is_up else "restarting",
        lag_records=samples.whole("culm_job_lag_records", name),
        rows_in=samples.whole("culm_job_rows_in_total", name),
        rows_per_second=None,
        checkpoint_ms=samples.time_ms("culm_job_checkpoint_timestamp_seconds", name),
        failures=count(samples.whole("culm_job_failures_total", name)),
        rejected=count(samples.whole("culm_job_rejected_total", name)),
        state_rows=samples.whole("culm_job_state_rows", name),
        last_error=None,
    )


def _ms(seconds: float | None) -> int | None:
    """Return a time in milliseconds; None if it is unset or in the far future."""
    if not seconds or seconds > time.time() + 86_400:
        return None
    return int(seconds * 1000)
