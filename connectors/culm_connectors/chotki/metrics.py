"""What is measured of Chotki's sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric

from culm_connectors.edge.metric_families import counter_by, counters, gauge
from culm_connectors.edge.protocol_metrics import SessionMetrics


@dataclass(slots=True)
class ChotkiMetrics(SessionMetrics):
    """What an edge counts beside what every protocol with sessions does. A refusal ends its session."""

    packets_in: int = 0
    packets_out: int = 0
    syncs_in: int = 0
    fields_in: int = 0
    warned: Counter[str] = field(default_factory=Counter)
    """By code: what refused nothing."""
    untold: int = 0
    """Lines of sessions and refused bytes that Kafka was too slow for."""


def families(metrics: ChotkiMetrics, *, epoch: int, tail: int, duplicates: int) -> Iterator[Metric]:
    """What Chotki alone has."""
    yield gauge("culm_chotki_epoch", "the epoch that diffs are answered from", epoch)
    yield gauge("culm_chotki_tail_packets", "live packets that this epoch does not have", tail)
    yield gauge("culm_chotki_unique_duplicates", "values that Go takes once, of several objects", duplicates)
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
