"""What a connector tells Prometheus. Labels are codes and topics of ours, never peers: those are too many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from culm_models.p2panda.messages import MODE_LOG_HEIGHT, MODE_SET_RECONCILIATION

if TYPE_CHECKING:
    from culm_connectors.connector import Connector
    from culm_connectors.p2panda.metrics import DriverMetrics
    from culm_connectors.sds.driver import SdsDriver

MODE_NAMES = {MODE_LOG_HEIGHT: "heights", MODE_SET_RECONCILIATION: "ranges"}


class ConnectorCollector(Collector):
    """Reads the numbers where they are kept, at the time of a scrape and in the scrape's thread."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def describe(self) -> Iterator[Metric]:
        """Nothing is known before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every metric of the connector."""
        connector = self._connector
        health = connector.health
        yield _build_info()
        yield _gauge("culm_connector_ready", "1 while /readyz answers 200", float(not health.why_not_ready()))
        if not connector.is_built:
            return
        ends = connector.kafka_health.ends
        yield _gauge("culm_kafka_up", "1 while Kafka answers", float(connector.kafka_health.away is None))
        if (progress_s := health.last_progress_s()) is not None:
            text = "when records were last read or acknowledged, or Kafka said that there are none"
            yield _gauge("culm_last_progress_timestamp_seconds", text, progress_s)
        yield from connector.loop_watch.blocked.collect()
        driver, publication = connector.driver.metrics, connector.publication
        counts = connector.subscription.counts
        yield _gauge("culm_peers", "connections open now", driver.connections)
        yield _gauge("culm_verify_queue_entries", "entries in or before their check", connector.pool.waiting)
        yield _gauge("culm_staged_entries", "checked entries that wait for Kafka", driver.staged)
        yield _gauge("culm_peers_waiting", "peers that wait to catch up", driver.waiting_for_turn)
        yield _gauge("culm_claimed_logs", "logs known from blocks alone", connector.boot.claims.log_count)
        yield _gauge("culm_ranges_held_back", "parts of logs on their way to peers", driver.ranges_held_back)
        yield _gauge("culm_schemas", "schemas that are served", len(connector.interest.served))
        records, size = connector.producer.in_flight
        yield _gauge("culm_produce_in_flight_records", "records that Kafka has not acknowledged", records)
        yield _gauge("culm_produce_in_flight_bytes", "bytes that Kafka has not acknowledged", size)
        yield from connector.producer.latency.collect()
        logs, entries = connector.index.store.counts()
        yield _gauge("culm_index_logs", "logs in the index", logs)
        yield _gauge("culm_index_entries", "entries in the index", entries)
        aside = connector.subscription.gaps.logs_set_aside
        yield _gauge("culm_index_logs_set_aside", "logs that lack an entry in the logs topic", aside)
        yield _gauge("culm_index_bytes", "size of the index's file", connector.index.store.size_bytes())
        full = int(connector.index.full is not None)
        yield _gauge("culm_index_full", "1 while the index waits for room on the disk", full)
        lag = GaugeMetricFamily(
            "culm_topic_lag_records",
            "records not read yet, by the brokers' own ends; none while those are not known",
            labels=["topic"],
        )
        if ends is not None:
            for reader in connector.readers:
                lag.add_metric([reader.topic], reader.lag(ends.offsets))
        yield lag
        for name, text, value in (
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
            ("culm_index_repaired_entries", "read from logs again", connector.boot.repaired_entries),
            ("culm_index_damaged_logs", "logs that were not as blocks tells", connector.boot.damaged_logs),
            (
                "culm_index_logs_read_again",
                "logs read again for a gap",
                connector.subscription.gaps.read_again,
            ),
            ("culm_received_bytes", "stream bytes from peers", driver.bytes_in),
            ("culm_sent_bytes", "stream bytes to peers", driver.bytes_out),
            ("culm_entries_received", "entries that peers sent", driver.entries_in),
            ("culm_entries_accepted", "entries of peers that were new and right", driver.entries_accepted),
            ("culm_entries_sent", "entries sent to peers", driver.entries_out),
            ("culm_entries_repeated", "entries of peers that were held already", driver.duplicates),
            ("culm_live_entries", "entries taken from other connectors", counts.live_taken),
            ("culm_logs_entries", "entries taken from the logs topic", counts.truth_taken),
            (
                "culm_repeated_faults",
                "faults of authors reported before",
                publication.repeated_faults,
            ),
            ("culm_logs_corrections", "logs cut back by the truth", counts.truth_corrected),
        ):
            yield CounterMetricFamily(name, text, value=value)
        modes = {MODE_NAMES.get(mode, "other"): count for mode, count in driver.sessions_by_mode.items()}
        yield _by("culm_sessions", "sessions begun, by mode", "mode", modes)
        yield _by("culm_rejects", "what was refused, by code", "code", driver.rejects)
        yield _by("culm_ignored", "what was passed over, by code", "code", driver.ignored)
        yield _by("culm_sessions_failed", "sessions that failed, by code", "code", driver.sessions_failed)
        yield _by("culm_closed", "connections that were closed by us, by reason", "reason", driver.closed)
        yield _by("culm_produced_records", "records produced, by topic", "topic", publication.told)
        yield _by("culm_dropped_records", "records dropped before a slow Kafka", "topic", publication.dropped)
        if connector.sds is not None:
            yield from _of_sds(connector.sds)
        if connector.nodes is not None:
            yield from _of_nodes(connector.nodes.driver.metrics)


def _of_nodes(driver: DriverMetrics) -> Iterator[Metric]:
    """What is told of links to p2panda nodes, which have a driver of their own."""
    yield _gauge("culm_nodes", "connections to p2panda nodes open now", driver.connections)
    for name, text, value in (
        ("culm_node_sessions_done", "sessions with nodes that ended well", driver.sessions_done),
        ("culm_node_entries_received", "entries that nodes sent", driver.entries_in),
        ("culm_node_entries_accepted", "entries of nodes that were new and right", driver.entries_accepted),
        ("culm_node_entries_sent", "entries sent to nodes", driver.entries_out),
    ):
        yield CounterMetricFamily(name, text, value=value)
    yield _by("culm_node_rejects", "what was refused of nodes, by code", "code", driver.rejects)
    yield _by(
        "culm_node_sessions_failed", "failed sessions with nodes, by code", "code", driver.sessions_failed
    )


def _of_sds(sds: SdsDriver) -> Iterator[Metric]:
    """The metrics of participants of SDS channels, which have a driver of their own."""
    driver = sds.metrics
    yield from driver.accept_latency.collect()
    for name, text, number in (
        ("culm_sds_connections", "connections that speak SDS open now", driver.connections),
        ("culm_sds_channels", "channels that somebody here has joined", driver.channels),
        ("culm_sds_memberships", "joins in force, of all connections", driver.memberships),
        ("culm_sds_staged_records", "records of peers that wait for Kafka", driver.staged),
        ("culm_sds_unsent_bytes", "bytes that wait for slow participants", sds.unsent.bytes),
        (
            "culm_sds_catching_up_waiting",
            "keys that wait until their past is read",
            sds.turns.waiting,
        ),
    ):
        yield _gauge(name, text, number)
    for name, text, value in (
        ("culm_sds_connections_made", "connections since the start", driver.connections_total),
        ("culm_sds_received_bytes", "stream bytes from participants", driver.bytes_in),
        ("culm_sds_sent_bytes", "stream bytes to participants", driver.bytes_out),
        ("culm_sds_messages_sent", "messages to full participants, each copy", driver.messages_out),
        ("culm_sds_messages_heard", "messages from elsewhere", driver.messages_heard),
        ("culm_sds_commands", "commands of hosted participants", driver.commands_in),
        ("culm_sds_events_sent", "events to clients of hosted participants", driver.events_out),
        ("culm_sds_history_sent", "messages of the past to joining peers", driver.history_out),
        ("culm_sds_heads_sent", "heads told", driver.heads_out),
    ):
        yield CounterMetricFamily(name, text, value=value)
    yield _by("culm_sds_messages", "messages from full participants", "kind", driver.messages_in)
    yield _by("culm_sds_lookups", "ids asked for, by where they were found", "where", driver.lookups)
    yield _by("culm_sds_rejects", "what was refused, by code", "code", driver.rejects)
    yield _by("culm_sds_closed", "connections that were closed by us, by reason", "reason", driver.closed)


def _build_info() -> Metric:
    family = GaugeMetricFamily("culm_build_info", "1, with the version", labels=["version"])
    family.add_metric([version("culm")], 1)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
