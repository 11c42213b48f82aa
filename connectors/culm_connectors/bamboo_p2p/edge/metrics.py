"""Metrics of Bamboo Point-2-Point at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric

from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.metric_families import counters, gauge


@dataclass(slots=True)
class BambooMetrics(ProtocolMetrics):
    """Counts of an edge beyond those of every protocol, over all flavours."""

    entries_in: int = 0
    """New entries received from peers."""
    payloads_in: int = 0
    entries_followed: int = 0
    """New entries read from topics."""
    payloads_followed: int = 0
    payloads_dropped: int = 0
    """Payloads that retention dropped; the next field has their bytes."""
    payload_bytes_dropped: int = 0
    over_quota: int = 0
    """Proposals refused, and requests ended, because of a quota."""
    logs: int = 0
    spooled_bytes: int = 0
    full_shares: int = 0
    """Principals whose share of the spool is full."""
    requests: int = 0
    """Open requests of all connections."""


def families(metrics: BambooMetrics) -> Iterator[Metric]:
    """Yield the metrics that only Bamboo has."""
    yield gauge("culm_bamboo_p2p_logs", "logs with entries or payloads in the folder", metrics.logs)
    yield gauge(
        "culm_bamboo_p2p_spool_bytes", "bytes of incomplete payloads, not verified", metrics.spooled_bytes
    )
    yield gauge(
        "culm_bamboo_p2p_full_shares", "principals whose share of the spool is full", metrics.full_shares
    )
    yield gauge("culm_bamboo_p2p_requests", "open requests", metrics.requests)
    yield from counters(
        ("culm_bamboo_p2p_entries_received", "new entries received from peers", metrics.entries_in),
        ("culm_bamboo_p2p_payloads_received", "new payloads received from peers", metrics.payloads_in),
        ("culm_bamboo_p2p_entries_followed", "new entries read from topics", metrics.entries_followed),
        ("culm_bamboo_p2p_payloads_followed", "new payloads read from topics", metrics.payloads_followed),
        ("culm_bamboo_p2p_payloads_dropped", "payloads dropped by retention", metrics.payloads_dropped),
        (
            "culm_bamboo_p2p_dropped_bytes",
            "bytes of payloads dropped by retention",
            metrics.payload_bytes_dropped,
        ),
        (
            "culm_bamboo_p2p_over_quota",
            "proposals refused and requests ended because of a quota",
            metrics.over_quota,
        ),
    )
