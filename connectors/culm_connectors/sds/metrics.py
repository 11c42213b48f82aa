"""What the SDS driver counts and measures; an exporter or a test reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client import Histogram
from prometheus_client.core import Metric

from culm_connectors.edge.metric_families import counter_by, counters, gauge, latency_histogram


@dataclass(slots=True)
class SdsMetrics:
    """Totals since the driver was made, and a few values of this moment."""

    connections: int = 0
    """Open now."""
    connections_total: int = 0
    channels: int = 0
    """Channels that somebody has joined, now."""
    memberships: int = 0
    """Joins that are in force, of all connections."""
    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: Counter[str] = field(default_factory=Counter)
    """Whole messages from peers, by kind."""
    messages_out: int = 0
    """Whole messages to peers, each copy."""
    messages_heard: int = 0
    """Whole messages from other connectors and from the job."""
    commands_in: int = 0
    events_out: int = 0
    history_out: int = 0
    """Messages of the past that were sent to joining peers."""
    lookups: Counter[str] = field(default_factory=Counter)
    """Ids that were asked for, by where they were found: store, peer, nowhere."""
    heads_out: int = 0
    staged: int = 0
    """Records that wait for Kafka."""
    accept_latency: Histogram = field(
        default_factory=lambda: latency_histogram(
            "culm_sds_accept_latency_seconds", "From a participant's record to Kafka's acknowledgement."
        )
    )
    rejects: Counter[str] = field(default_factory=Counter)
    """What was refused, by its stable code."""
    closed: Counter[str] = field(default_factory=Counter)
    """Connections that this side ended, by reason."""


def families(metrics: SdsMetrics, unsent_bytes: int, waiting: int) -> Iterator[Metric]:
    """What Prometheus is told; `unsent_bytes` wait for slow participants, `waiting` keys to catch up."""
    yield from metrics.accept_latency.collect()
    for name, text, number in (
        ("culm_sds_connections", "connections that speak SDS open now", metrics.connections),
        ("culm_sds_channels", "channels that somebody here has joined", metrics.channels),
        ("culm_sds_memberships", "joins in force, of all connections", metrics.memberships),
        ("culm_sds_staged_records", "records of peers that wait for Kafka", metrics.staged),
        ("culm_sds_unsent_bytes", "bytes that wait for slow participants", unsent_bytes),
        (
            "culm_sds_catching_up_waiting",
            "keys that wait until their past is read",
            waiting,
        ),
    ):
        yield gauge(name, text, number)
    yield from counters(
        ("culm_sds_connections_made", "connections since the start", metrics.connections_total),
        ("culm_sds_received_bytes", "stream bytes from participants", metrics.bytes_in),
        ("culm_sds_sent_bytes", "stream bytes to participants", metrics.bytes_out),
        ("culm_sds_messages_sent", "messages to full participants, each copy", metrics.messages_out),
        ("culm_sds_messages_heard", "messages from elsewhere", metrics.messages_heard),
        ("culm_sds_commands", "commands of hosted participants", metrics.commands_in),
        ("culm_sds_events_sent", "events to clients of hosted participants", metrics.events_out),
        ("culm_sds_history_sent", "messages of the past to joining peers", metrics.history_out),
        ("culm_sds_heads_sent", "heads told", metrics.heads_out),
    )
    yield counter_by("culm_sds_messages", "messages from full participants", "kind", metrics.messages_in)
    yield counter_by("culm_sds_lookups", "ids asked for, by where they were found", "where", metrics.lookups)
    yield counter_by("culm_sds_rejects", "what was refused, by code", "code", metrics.rejects)
    yield counter_by(
        "culm_sds_closed", "connections that were closed by us, by reason", "reason", metrics.closed
    )
