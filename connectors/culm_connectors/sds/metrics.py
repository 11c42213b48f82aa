"""Counters and gauges of the SDS driver, for the exporter and for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric

from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.metric_families import counter_by, counters, gauge


@dataclass(slots=True)
class SdsMetrics(ProtocolMetrics):
    """Counters of SDS beside those of every protocol. Keys that catch up are what waits for a turn."""

    channels: int = 0
    """Channels that somebody has joined, now."""
    memberships: int = 0
    """Joins that are in force, of all connections."""
    messages_in: Counter[str] = field(default_factory=Counter)
    """Complete messages from peers, by kind."""
    messages_out: int = 0
    """Complete messages to peers, counting each copy."""
    messages_heard: int = 0
    """Complete messages from other connectors and from the job."""
    commands_in: int = 0
    events_out: int = 0
    history_out: int = 0
    """Messages of the past that were sent to joining peers."""
    lookups: Counter[str] = field(default_factory=Counter)
    """Ids that were asked for, by where they were found: store, peer, nowhere."""
    heads_out: int = 0


def families(metrics: SdsMetrics) -> Iterator[Metric]:
    """Yield the metrics that only SDS has."""
    yield gauge("culm_sds_channels", "channels with participants at this connector", metrics.channels)
    yield gauge("culm_sds_memberships", "joins in force, of all connections", metrics.memberships)
    yield from counters(
        ("culm_sds_messages_sent", "messages to full participants, each copy", metrics.messages_out),
        (
            "culm_sds_messages_heard",
            "messages from other connectors and from the job",
            metrics.messages_heard,
        ),
        ("culm_sds_commands", "commands of hosted participants", metrics.commands_in),
        ("culm_sds_events_sent", "events to clients of hosted participants", metrics.events_out),
        ("culm_sds_history_sent", "earlier messages sent to joining participants", metrics.history_out),
        ("culm_sds_heads_sent", "heads sent to participants", metrics.heads_out),
    )
    yield counter_by(
        "culm_sds_messages_received", "messages from full participants", "kind", metrics.messages_in
    )
    yield counter_by(
        "culm_sds_lookups", "requested ids, by the place where they were found", "where", metrics.lookups
    )
