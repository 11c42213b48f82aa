"""Metrics of p2panda alone, and of its followers of replicated logs, for Prometheus.

Drivers of peers and of nodes count together in what every protocol is measured by (`measured`).
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from culm_connectors.edge.protocol_metrics import added
from culm_connectors.metric_families import counter_by, counters, gauge
from culm_connectors.p2panda.composition import Composition
from culm_connectors.p2panda.peer_events import DriverMetrics
from culm_models.p2panda.wire.messages import MODE_LOG_HEIGHT, MODE_SET_RECONCILIATION

MODE_NAMES = {MODE_LOG_HEIGHT: "heights", MODE_SET_RECONCILIATION: "ranges"}


def measured(parts: Composition) -> DriverMetrics:
    """The numbers of all drivers at this moment."""
    peers = parts.driver.measured()
    return peers if parts.nodes is None else added(peers, parts.nodes.driver.measured())


def families(parts: Composition) -> Iterator[Metric]:
    """Yield the metrics of the followers of replicated logs, of peers, and of linked nodes, if any."""
    yield from parts.followers.entries.metrics()
    yield from parts.followers.logs.metrics()
    driver = parts.driver.metrics
    yield gauge("culm_p2panda_schemas", "schemas that are served", len(parts.interest.served))
    yield gauge(
        "culm_p2panda_ranges_held_back",
        "ranges of logs that wait to be sent to peers",
        driver.ranges_held_back,
    )
    yield from counters(
        ("culm_p2panda_sessions_live", "sessions that reached live mode", driver.sessions_live),
        (
            "culm_p2panda_reconciliations",
            "completed set reconciliations",
            driver.reconciled,
        ),
        (
            "culm_p2panda_reconciliation_rounds",
            "batches of both sides in set reconciliations",
            driver.reconciliation_rounds,
        ),
        (
            "culm_p2panda_reconciliation_messages",
            "messages of set reconciliations, in both directions",
            driver.reconciliation_messages,
        ),
        (
            "culm_p2panda_reconciliation_received_bytes",
            "bytes of these messages received",
            driver.reconciliation_bytes_in,
        ),
        (
            "culm_p2panda_reconciliation_sent_bytes",
            "bytes of these messages sent",
            driver.reconciliation_bytes_out,
        ),
        ("culm_p2panda_differing_logs", "logs that differed between both sides", driver.differing_logs),
        ("culm_p2panda_entries_received", "entries that peers sent", driver.entries_in),
        (
            "culm_p2panda_entries_accepted",
            "entries of peers that were new and valid",
            driver.entries_accepted,
        ),
        ("culm_p2panda_entries_sent", "entries sent to peers", driver.entries_out),
        (
            "culm_p2panda_withheld_logs",
            "logs that a peer was not sent in full, for an entry that is too large",
            driver.withheld_logs,
        ),
        ("culm_p2panda_entries_repeated", "entries of peers that were held already", driver.duplicates),
    )
    modes = {MODE_NAMES.get(mode, "other"): count for mode, count in driver.sessions_by_mode.items()}
    yield counter_by("culm_p2panda_sessions", "sessions begun, by mode", "mode", modes)
    yield counter_by("culm_p2panda_ignored", "ignored messages, by code", "code", driver.ignored)
    if parts.nodes is not None:
        yield from _of_nodes(parts.nodes.driver.metrics)


def _of_nodes(driver: DriverMetrics) -> Iterator[Metric]:
    """Yield the metrics of links to p2panda nodes, which have a driver of their own."""
    yield gauge("culm_p2panda_nodes", "connections to p2panda nodes open now", driver.connections)
    yield from counters(
        ("culm_p2panda_node_sessions_done", "sessions with nodes that ended well", driver.sessions_done),
        ("culm_p2panda_node_entries_received", "entries that nodes sent", driver.entries_in),
        (
            "culm_p2panda_node_entries_accepted",
            "entries of nodes that were new and valid",
            driver.entries_accepted,
        ),
        ("culm_p2panda_node_entries_sent", "entries sent to nodes", driver.entries_out),
    )
    yield counter_by(
        "culm_p2panda_node_rejected", "data from nodes that was refused, by code", "code", driver.rejects
    )
    yield counter_by(
        "culm_p2panda_node_sessions_failed",
        "failed sessions with nodes, by code",
        "code",
        driver.sessions_failed,
    )
