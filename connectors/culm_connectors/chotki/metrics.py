"""What is measured of Chotki's sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


@dataclass(slots=True)
class ChotkiMetrics:
    """Counts of one edge since its start."""

    sessions: int = 0
    """Open now."""
    packets_in: int = 0
    packets_out: int = 0
    syncs_in: int = 0
    fields_in: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """By code."""
    warned: Counter[str] = field(default_factory=Counter)
    """By code: what refused nothing."""
    untold: int = 0
    """Lines of sessions and refused bytes that Kafka was too slow for."""


def families(metrics: ChotkiMetrics, *, epoch: int, tail: int, waiting_bytes: int) -> Iterator[Metric]:
    """The families of this moment."""
    gauges = (
        ("culm_chotki_sessions", "Sessions with replicas.", metrics.sessions),
        ("culm_chotki_epoch", "The epoch that diffs are answered from.", epoch),
        ("culm_chotki_tail_packets", "Live packets that this epoch does not have.", tail),
        ("culm_chotki_waiting_bytes", "Taken from peers and not acknowledged by Kafka.", waiting_bytes),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(name, text, value)
    counters = (
        ("culm_chotki_packets_received", "Live packets taken from peers.", metrics.packets_in),
        ("culm_chotki_packets_relayed", "Live packets read for peers.", metrics.packets_out),
        ("culm_chotki_syncs_received", "Diffs that came whole.", metrics.syncs_in),
        ("culm_chotki_fields_received", "Fields in them.", metrics.fields_in),
        ("culm_chotki_reports_dropped", "Reports that Kafka was too slow for.", metrics.untold),
    )
    for name, text, value in counters:
        yield CounterMetricFamily(name, text, value)
    refused = CounterMetricFamily(
        "culm_chotki_refused", "Sessions ended for what came, or did not.", labels=("code",)
    )
    for code, count in sorted(metrics.refused.items()):
        refused.add_metric((code,), count)
    yield refused
    warned = CounterMetricFamily(
        "culm_chotki_warnings", "What was not as it should be, and refused nothing.", labels=("code",)
    )
    for code, count in sorted(metrics.warned.items()):
        warned.add_metric((code,), count)
    yield warned
