"""What the SDS driver counts and measures; an exporter or a test reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from prometheus_client import Histogram

from culm_connectors.latency import latency_histogram


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
