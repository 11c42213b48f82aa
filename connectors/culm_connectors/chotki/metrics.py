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
    yield gauge("culm_chotki_epoch", "the epoch that diffs are answered from", epoch)
    yield gauge("culm_chotki_tail_packets", "live packets that this epoch does not have", tail)
    yield gauge("culm_chotki_unique_duplicates", "values that Go takes once, of several objects", duplicates)
    yield gauge("culm_chotki_tail_bytes", "what they take in memory and on disk", tail_bytes)
    yield gauge("culm_chotki_spool_bytes", "on disk: diffs not whole, what Kafka is slow for", spool_bytes)
    yield gauge("culm_chotki_waiting_seconds", "age of the oldest that waits for Kafka", metrics.waiting_s)
    yield gauge("culm_chotki_peer_lag_seconds", "the peer longest behind has been so", metrics.peer_lag_s)
    yield from _diffs(metrics)
    yield from counters(
        ("culm_chotki_packets_received", "live packets taken from peers", metrics.packets_in),
        ("culm_chotki_packets_relayed", "live packets read for peers", metrics.packets_out),
        ("culm_chotki_syncs_received", "diffs that came whole", metrics.syncs_in),
        ("culm_chotki_fields_received", "fields in them", metrics.fields_in),
        ("culm_chotki_reports_dropped", "reports that Kafka was too slow for", metrics.untold),
    )
    yield counter_by(
        "culm_chotki_warnings", "what was not as it should be, and refused nothing", "code", metrics.warned
    )


def _diffs(metrics: ChotkiMetrics) -> Iterator[Metric]:
    labels = ("direction", "stage")
    blocks = GaugeMetricFamily("culm_chotki_diff_blocks", "blocks of open sessions' diffs", labels=labels)
    sizes = GaugeMetricFamily("culm_chotki_diff_bytes", "bytes of them; in: no total is known", labels=labels)
    for direction, progress in (("out", metrics.sent), ("in", metrics.taken)):
        blocks.add_metric((direction, "done"), progress.blocks_done)
        blocks.add_metric((direction, "total"), progress.blocks_total)
        sizes.add_metric((direction, "done"), progress.bytes_done)
        sizes.add_metric((direction, "total"), progress.bytes_total)
    yield blocks
    yield sizes
