"""What Prometheus is told of replicated logs, whichever protocols feed it: plain `culm_` names."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from culm_connectors.edge.metric_families import counter_by, counters, gauge
from culm_connectors.logs.follow_entries import EntriesFollower
from culm_connectors.logs.follow_logs import LogsFollower
from culm_connectors.logs.replicated_logs import ReplicatedLogs


def families(
    room: ReplicatedLogs, entries: EntriesFollower, logs: LogsFollower, in_checks: int
) -> Iterator[Metric]:
    """Of the index, the topics that it is filled from, and the `in_checks` entries in or before a check."""
    index, warm_start = room.index, room.warm_start
    held_logs, held_entries = index.store.counts()
    yield gauge("culm_check_queue_entries", "entries in or before their check", in_checks)
    yield gauge("culm_index_logs", "logs in the index", held_logs)
    yield gauge("culm_index_entries", "entries in the index", held_entries)
    yield gauge("culm_index_claimed_logs", "logs known from blocks alone", warm_start.claims.log_count)
    yield gauge(
        "culm_index_logs_set_aside", "logs that lack an entry in the logs topic", logs.gaps.logs_set_aside
    )
    yield gauge("culm_index_bytes", "size of the index's file", index.store.size_bytes())
    full = int(index.full is not None)
    yield gauge("culm_index_full", "1 while the index waits for room on the disk", full)
    yield from counters(
        ("culm_index_repaired_entries", "read from logs again", warm_start.repaired_entries),
        ("culm_index_damaged_logs", "logs that were not as blocks tells", warm_start.damaged_logs),
        ("culm_index_logs_read_again", "logs read again for a gap", logs.gaps.read_again),
        ("culm_live_entries", "entries taken from other connectors", entries.taken),
        ("culm_logs_entries", "entries taken from the logs topic", logs.taken),
        ("culm_logs_corrections", "logs cut back by the truth", logs.corrected),
        ("culm_repeated_faults", "faults of authors reported before", room.publisher.repeated_faults),
    )
    dropped = room.sender.dropped
    yield counter_by("culm_dropped_records", "records dropped before a slow Kafka", "topic", dropped)
