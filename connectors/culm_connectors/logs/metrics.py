"""Prometheus metrics of replicated logs, for all protocols together: plain `culm_` names."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.logs.hub import LogPublisher
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.warm_start.repair import LogGaps
from culm_connectors.logs.warm_start.warm_start import WarmStart
from culm_connectors.metric_families import counter_by, counters, gauge


def of_index(index: IndexWriter, warm_start: WarmStart, gaps: LogGaps) -> Iterator[Metric]:
    """Metrics of the index: its contents, its missing entries and its repairs."""
    held_logs, held_entries = index.store.counts()
    yield gauge("culm_index_logs", "logs in the index", held_logs)
    yield gauge("culm_index_entries", "entries in the index", held_entries)
    yield gauge(
        "culm_index_claimed_logs",
        "logs that are known from blocks and not held yet",
        warm_start.claims.log_count,
    )
    yield gauge(
        "culm_index_logs_set_aside", "logs with an entry missing in the topic logs", gaps.logs_set_aside
    )
    yield gauge("culm_index_bytes", "size of the index's file", index.store.size_bytes())
    full = int(index.full is not None)
    yield gauge("culm_index_full", "1 while the index waits for space on the disk", full)
    yield from counters(
        (
            "culm_index_repaired_entries",
            "entries read from the topic logs again",
            warm_start.repaired_entries,
        ),
        ("culm_index_damaged_logs", "logs that differed from blocks", warm_start.damaged_logs),
        ("culm_index_logs_read_again", "logs read again for a gap", gaps.read_again),
    )


def of_publishing(publisher: LogPublisher, sender: BatchSender, in_checks: int) -> Iterator[Metric]:
    """Metrics of publishing; `in_checks` counts the entries that wait for a check or are in a check."""
    yield gauge("culm_check_queue_entries", "entries in or before their check", in_checks)
    yield from counters(
        ("culm_repeated_faults", "faults of authors that had been reported before", publisher.repeated_faults)
    )
    yield counter_by(
        "culm_dropped_records", "records dropped because Kafka was slow, by kind", "kind", sender.dropped
    )
