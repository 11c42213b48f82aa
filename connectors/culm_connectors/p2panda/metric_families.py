"""What Prometheus is told of p2panda at the edge: its sessions, and the replicated logs that it feeds."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from culm_connectors.edge.metric_families import counter_by, counters, gauge
from culm_connectors.logs.check_pool import CheckPool
from culm_connectors.logs.index import IndexWriter
from culm_connectors.p2panda.composition import Composition
from culm_connectors.p2panda.metrics import DriverMetrics
from culm_models.p2panda.operations.operation import OperationFacts
from culm_models.p2panda.wire.messages import MODE_LOG_HEIGHT, MODE_SET_RECONCILIATION

MODE_NAMES = {MODE_LOG_HEIGHT: "heights", MODE_SET_RECONCILIATION: "ranges"}


def families(parts: Composition, index: IndexWriter, pool: CheckPool[OperationFacts]) -> Iterator[Metric]:
    """Of peers, the index and the topics between."""
    driver, logs_read = parts.driver.metrics, parts.followers.logs
    sender, warm_start = parts.logs.sender, parts.logs.warm_start
    yield gauge("culm_peers", "connections open now", driver.connections)
    yield gauge("culm_verify_queue_entries", "entries in or before their check", pool.waiting)
    yield gauge("culm_staged_entries", "checked entries that wait for Kafka", driver.staged)
    yield gauge("culm_peers_waiting", "peers that wait to catch up", driver.waiting_for_turn)
    yield gauge("culm_claimed_logs", "logs known from blocks alone", warm_start.claims.log_count)
    yield gauge("culm_ranges_held_back", "parts of logs on their way to peers", driver.ranges_held_back)
    yield gauge("culm_schemas", "schemas that are served", len(parts.interest.served))
    logs, entries = index.store.counts()
    yield gauge("culm_index_logs", "logs in the index", logs)
    yield gauge("culm_index_entries", "entries in the index", entries)
    aside = logs_read.gaps.logs_set_aside
    yield gauge("culm_index_logs_set_aside", "logs that lack an entry in the logs topic", aside)
    yield gauge("culm_index_bytes", "size of the index's file", index.store.size_bytes())
    full = int(index.full is not None)
    yield gauge("culm_index_full", "1 while the index waits for room on the disk", full)
    yield from counters(
        ("culm_connections", "connections since the start", driver.connections_total),
        ("culm_sessions_started", "sessions begun", driver.sessions_started),
        ("culm_sessions_done", "sessions that ended well", driver.sessions_done),
        ("culm_sessions_left", "sessions that ended because the peer left", driver.sessions_left),
        ("culm_sessions_live", "sessions that reached live mode", driver.sessions_live),
        ("culm_reconciliations", "set reconciliations that came to their end", driver.reconciled),
        ("culm_reconciliation_rounds", "batches of both sides in them", driver.reconciliation_rounds),
        ("culm_reconciliation_messages", "their messages, both ways", driver.reconciliation_messages),
        ("culm_reconciliation_received_bytes", "of them", driver.reconciliation_bytes_in),
        ("culm_reconciliation_sent_bytes", "of them", driver.reconciliation_bytes_out),
        ("culm_differing_logs", "logs that one side was found to lack", driver.differing_logs),
        ("culm_index_repaired_entries", "read from logs again", warm_start.repaired_entries),
        (
            "culm_index_damaged_logs",
            "logs that were not as blocks tells",
            warm_start.damaged_logs,
        ),
        (
            "culm_index_logs_read_again",
            "logs read again for a gap",
            logs_read.gaps.read_again,
        ),
        ("culm_received_bytes", "stream bytes from peers", driver.bytes_in),
        ("culm_sent_bytes", "stream bytes to peers", driver.bytes_out),
        ("culm_entries_received", "entries that peers sent", driver.entries_in),
        ("culm_entries_accepted", "entries of peers that were new and right", driver.entries_accepted),
        ("culm_entries_sent", "entries sent to peers", driver.entries_out),
        ("culm_entries_repeated", "entries of peers that were held already", driver.duplicates),
        ("culm_live_entries", "entries taken from other connectors", parts.followers.entries.taken),
        ("culm_logs_entries", "entries taken from the logs topic", logs_read.taken),
        (
            "culm_repeated_faults",
            "faults of authors reported before",
            parts.logs.publisher.repeated_faults,
        ),
        ("culm_logs_corrections", "logs cut back by the truth", logs_read.corrected),
    )
    modes = {MODE_NAMES.get(mode, "other"): count for mode, count in driver.sessions_by_mode.items()}
    yield counter_by("culm_sessions", "sessions begun, by mode", "mode", modes)
    yield counter_by("culm_rejects", "what was refused, by code", "code", driver.rejects)
    yield counter_by("culm_ignored", "what was passed over, by code", "code", driver.ignored)
    yield counter_by("culm_sessions_failed", "sessions that failed, by code", "code", driver.sessions_failed)
    yield counter_by("culm_closed", "connections that were closed by us, by reason", "reason", driver.closed)
    yield counter_by("culm_produced_records", "records produced, by topic", "topic", sender.produced)
    yield counter_by("culm_dropped_records", "records dropped before a slow Kafka", "topic", sender.dropped)
    if parts.nodes is not None:
        yield from _of_nodes(parts.nodes.driver.metrics)


def _of_nodes(driver: DriverMetrics) -> Iterator[Metric]:
    """What is told of links to p2panda nodes, which have a driver of their own."""
    yield gauge("culm_nodes", "connections to p2panda nodes open now", driver.connections)
    yield from counters(
        ("culm_node_sessions_done", "sessions with nodes that ended well", driver.sessions_done),
        ("culm_node_entries_received", "entries that nodes sent", driver.entries_in),
        ("culm_node_entries_accepted", "entries of nodes that were new and right", driver.entries_accepted),
        ("culm_node_entries_sent", "entries sent to nodes", driver.entries_out),
    )
    yield counter_by("culm_node_rejects", "what was refused of nodes, by code", "code", driver.rejects)
    yield counter_by(
        "culm_node_sessions_failed", "failed sessions with nodes, by code", "code", driver.sessions_failed
    )
