"""Metrics that every protocol has, exported in families that all share, with the label `protocol`.

A protocol keeps its numbers in a `ProtocolMetrics`, or in a subclass with further numbers. One dashboard
panel then serves all protocols. The metrics of one protocol alone are in families of its own, whose names
begin with `culm_` and the protocol's name; they need no label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, Self, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from culm_connectors.followed_file import FollowedFile
from culm_connectors.metric_families import LATENCY_BUCKETS_S
from culm_models.bamboo.errors import ForkError

LABEL = "protocol"
NO_PROTOCOL = ""
"""Value of the label if the protocol was not known yet; Prometheus treats it like a missing label."""


class Durations:
    """A histogram of seconds, in the buckets of all latencies; equal durations can be observed together."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BUCKETS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        """Add a duration, `times` over."""
        self._counts[bisect_left(LATENCY_BUCKETS_S, seconds)] += times
        self._sum_s += seconds * times

    def __add__(self, other: Self) -> Self:
        both = type(self)()
        both._counts = [own + more for own, more in zip(self._counts, other._counts, strict=True)]
        both._sum_s = self._sum_s + other._sum_s
        return both

    @property
    def count(self) -> int:
        """Return the number of observations."""
        return sum(self._counts)

    def add_to(self, family: HistogramMetricFamily, labels: list[str]) -> None:
        """Add this histogram as a sample to a family."""
        bounds = (*map(str, LATENCY_BUCKETS_S), "+Inf")
        buckets = list(zip(bounds, map(float, accumulate(tuple(self._counts))), strict=True))
        family.add_metric(labels, buckets=buckets, sum_value=self._sum_s)


@dataclass(slots=True)
class ProtocolMetrics:
    """Totals since the start, and a few current values. Labels never identify a peer."""

    connections: int = 0
    """Connections that are open now."""
    connections_total: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Connections that passed the door and were turned away before any data was sent, by reason."""
    closed: Counter[str] = field(default_factory=Counter)
    """Connections that this side ended, by reason."""
    bytes_in: int = 0
    """Bytes received on streams and channels; `bytes_out` are those sent."""
    bytes_out: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    """Data from peers that was refused, by its stable code."""
    staged: int = 0
    """Records from peers that wait for Kafka."""
    staged_bytes: int = 0
    unsent_bytes: int = 0
    """Bytes that wait for peers that read slowly."""
    waiting_for_turn: int = 0
    """Peers that wait until others have caught up."""
    accept_latency: Durations = field(default_factory=Durations)
    """Time from receiving data from a peer to Kafka's acknowledgement."""
    files: tuple[FollowedFile, ...] = ()
    """Certificates that it serves other than at its doors."""


@dataclass(slots=True)
class SessionMetrics(ProtocolMetrics):
    """Metrics of a protocol whose peers meet in sessions, which begin and end."""

    sessions_started: int = 0
    sessions_done: int = 0
    sessions_left: int = 0
    """Sessions whose peer left: not a failure, even if data was still to come."""
    sessions_failed: Counter[str] = field(default_factory=Counter)
    """Failed sessions, by the stable code of the error."""


Kept = TypeVar("Kept", bound=ProtocolMetrics)


def added(metrics: Kept, other: Kept) -> Kept:
    """Return the sum of the metrics of two drivers of one protocol."""
    both: dict[str, Any] = {
        each.name: getattr(metrics, each.name) + getattr(other, each.name) for each in fields(metrics)
    }
    return type(metrics)(**both)


_GAUGES = (
    ("culm_connections", "connections open now", "connections"),
    ("culm_staged_records", "records received from peers that wait for Kafka", "staged"),
    ("culm_staged_bytes", "bytes received from peers that wait for Kafka", "staged_bytes"),
    ("culm_unsent_bytes", "bytes that wait for peers that read slowly", "unsent_bytes"),
    ("culm_peers_waiting", "peers that wait until others have caught up", "waiting_for_turn"),
)
_COUNTERS = (
    ("culm_connections_opened", "connections since the start", "connections_total"),
    ("culm_received_bytes", "bytes of streams and channels from peers", "bytes_in"),
    ("culm_sent_bytes", "bytes of streams and channels to peers", "bytes_out"),
)
_OF_SESSIONS = (
    ("culm_sessions_started", "sessions begun", "sessions_started"),
    ("culm_sessions_done", "sessions that ended well", "sessions_done"),
    ("culm_sessions_left", "sessions that ended because the peer left", "sessions_left"),
)


def families(measured: Mapping[str, ProtocolMetrics]) -> Iterator[Metric]:
    """Return the shared families, with a sample of each protocol by its name."""
    for name, text, attribute in _GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=[LABEL])
        for protocol, metrics in measured.items():
            gauge.add_metric([protocol], getattr(metrics, attribute))
        yield gauge
    sessions = {name: metrics for name, metrics in measured.items() if isinstance(metrics, SessionMetrics)}
    for table, whose in ((_COUNTERS, measured), (_OF_SESSIONS, sessions)):
        for name, text, attribute in table:
            counter = CounterMetricFamily(name, text, labels=[LABEL])
            for protocol, metrics in whose.items():
                counter.add_metric([protocol], getattr(metrics, attribute))
            yield counter
    rejects = {protocol: metrics.rejects for protocol, metrics in measured.items()}
    yield counter_by("culm_rejected", "data from peers that was refused, by code", "code", rejects)
    # From 0 on, so that the first fork is an increase.
    forks = CounterMetricFamily("culm_forks", "forks among the data from peers", labels=[LABEL])
    for protocol, refused in rejects.items():
        forks.add_metric([protocol], refused[ForkError.code])
    yield forks
    failed = {protocol: metrics.sessions_failed for protocol, metrics in sessions.items()}
    yield counter_by("culm_sessions_failed", "sessions that failed, by code", "code", failed)
    latency = HistogramMetricFamily(
        "culm_accept_latency_seconds",
        "from the receipt of data from a peer to Kafka's acknowledgement",
        labels=[LABEL],
    )
    for protocol, metrics in measured.items():
        metrics.accept_latency.add_to(latency, [protocol])
    yield latency


def counter_by(name: str, text: str, label: str, totals: Mapping[str, Mapping[str, int]]) -> Metric:
    """Return totals since the start by protocol and another label."""
    family = CounterMetricFamily(name, text, labels=[LABEL, label])
    for protocol, values in totals.items():
        for key, value in sorted(values.items()):
            family.add_metric([protocol, key], value)
    return family
