"""Metrics of Chotki's sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric

from culm_connectors.edge.protocol_metrics import SessionMetrics
from culm_connectors.metric_families import counter_by, counters, gauge
from culm_models.chotki.sync.progress import NO_PROGRESS, Progress


@dataclass(slots=True)
class ChotkiMetrics(SessionMetrics):
    """Counts of an edge beyond those of every protocol with sessions. A refusal ends its session."""

    packets_in: int = 0
    packets_out: int = 0
    syncs_in: int = 0
    fields_in: int = 0
    warned: Counter[str] = field(default_factory=Counter)
    """Warnings by code."""
    untold: int = 0
    """Reports about sessions and refused bytes that were dropped because Kafka was too slow."""
    waiting_s: float = 0.0
    """Waiting time of the oldest change from a peer that Kafka has not acknowledged."""
    peer_lag_s: float = 0.0
    """Time for which the peer with the longest lag has been behind."""
    sent: Progress = NO_PROGRESS
    """Progress of the diffs to all connected peers."""
    taken: Progress = NO_PROGRESS
    """Progress of the diffs from all connected peers."""


def families(
    metrics: ChotkiMetrics, *, epoch: int, tail: int, tail_bytes: int, spool_bytes: int, duplicates: int
) -> Iterator[Metric]:
    """Yield the metrics that only Chotki has."""
    yield gauge("culm_chotki_epoch", "epoch from which diffs are answered", epoch)
    yield gauge("culm_chotki_tail_packets", "live packets that this epoch does not contain", tail)
    yield gauge(
        "culm_chotki_unique_duplicates", "values of hash-indexed fields that several objects have", duplicates
    )
    yield gauge("culm_chotki_tail_bytes", "bytes of these packets, in memory and on disk", tail_bytes)
    yield gauge(
        "culm_chotki_spool_bytes",
        "bytes on disk of incomplete diffs and of data that waits for Kafka",
        spool_bytes,
    )
    yield gauge(
        "culm_chotki_waiting_seconds", "age of the oldest change that waits for Kafka", metrics.waiting_s
    )
    yield gauge(
        "culm_chotki_peer_lag_seconds",
        "time for which the peer with the longest lag has been behind",
        metrics.peer_lag_s,
    )
    yield from _diffs(metrics)
    yield from counters(
        ("culm_chotki_packets_received", "live packets received from peers", metrics.packets_in),
        ("culm_chotki_packets_relayed", "live packets forwarded to peers", metrics.packets_out),
        ("culm_chotki_syncs_received", "complete diffs received from peers", metrics.syncs_in),
        ("culm_chotki_fields_received", "fields in the diffs received from peers", metrics.fields_in),
        (
            "culm_chotki_reports_dropped",
            "reports that were dropped because Kafka was too slow",
            metrics.untold,
        ),
    )
    yield counter_by(
        "culm_chotki_warnings", "unexpected data that was not refused, by code", "code", metrics.warned
    )


def _diffs(metrics: ChotkiMetrics) -> Iterator[Metric]:
    labels = ("direction", "stage")
    blocks = GaugeMetricFamily(
        "culm_chotki_diff_blocks", "blocks in the diffs of open sessions", labels=labels
    )
    sizes = GaugeMetricFamily(
        "culm_chotki_diff_bytes",
        "bytes in the diffs of open sessions; the total of `in` is unknown",
        labels=labels,
    )
    for direction, progress in (("out", metrics.sent), ("in", metrics.taken)):
        blocks.add_metric((direction, "done"), progress.blocks_done)
        blocks.add_metric((direction, "total"), progress.blocks_total)
        sizes.add_metric((direction, "done"), progress.bytes_done)
        sizes.add_metric((direction, "total"), progress.bytes_total)
    yield blocks
    yield sizes
