"""Progress of one micro-batch, from the JSON that Spark reports."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

OBSERVED, REJECTED, FORKS = "written", "rejected", "forks"
"""Names of the metrics that every query observes: written records, those to the topic `rejected`, and the
forks among these."""

WAITING = "waiting"
"""Name of an optional metric: a list with the fields of `Waiting` for each `shard` with changes."""

Place = tuple[str, int]
"""(topic, partition)."""


class Waiting(NamedTuple):
    """Number of logs of one shard that wait for missing records, and the start of this waiting.

    `since_ms` is the wall-clock time since which there was always at least one, 0 while none waits.
    """

    logs: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One micro-batch of one job. `rows_out` is None if Spark does not know it.

    `positions` is the offset of each partition's next record. `lag` is the number of records that were unread
    when the batch began; the broker's current end offsets are more precise. `waiting` has the shards with
    changes. `forks` are among the `rejected`. `committed_ms` is the wall-clock time of the commit to the
    checkpoint.
    """

    job: str
    batch_id: int
    rows_in: int
    rows_out: int | None
    duration_ms: int
    lag: Mapping[Place, int]
    state_rows: int
    state_bytes: int
    rejected: int = 0
    forks: int = 0
    committed_ms: int | None = None
    positions: Mapping[Place, int] = field(default_factory=dict)
    waiting: Mapping[int, Waiting] = field(default_factory=dict)


def read_progress(job: str, report: Mapping[str, Any]) -> BatchProgress:
    """Return the progress in Spark's report of one micro-batch."""
    state = report.get("stateOperators") or []
    rows_out = (report.get("sink") or {}).get("numOutputRows", -1)
    lag: dict[Place, int] = {}
    positions: dict[Place, int] = {}
    for source in report.get("sources") or []:
        latest = read_offsets(source.get("latestOffset"))
        for partition, offset in read_offsets(source.get("endOffset")).items():
            lag[partition] = max(latest.get(partition, offset) - offset, 0)
            positions[partition] = min(offset, positions.get(partition, offset))
    observations = report.get("observedMetrics") or {}
    observed = observations.get(OBSERVED)
    duration_ms = int((report.get("durationMs") or {}).get("triggerExecution", 0))
    waiting = (
        () if (observed_waiting := observations.get(WAITING)) is None else observed_waiting[WAITING] or ()
    )
    return BatchProgress(
        job=job,
        batch_id=int(report["batchId"]),
        rows_in=int(report["numInputRows"]),
        rows_out=None if rows_out is None or rows_out < 0 else int(rows_out),
        duration_ms=duration_ms,
        lag=lag,
        state_rows=sum(int(operator["numRowsTotal"]) for operator in state),
        state_bytes=sum(int(operator["memoryUsedBytes"]) for operator in state),
        rejected=0 if observed is None else int(observed[REJECTED] or 0),
        forks=0 if observed is None else int(observed[FORKS] or 0),
        committed_ms=_time_ms(report.get("timestamp"), duration_ms),
        positions=positions,
        waiting={
            int(shard["shard"]): Waiting(int(shard["logs"]), int(shard["since_ms"])) for shard in waiting
        },
    )


def _time_ms(began: object, duration_ms: int) -> int | None:
    """Return the end of a micro-batch from Spark's text of its begin, `2026-11-27T10:00:00.000Z`."""
    if not isinstance(began, str):
        return None
    return int(datetime.fromisoformat(began).timestamp() * 1000) + duration_ms


def read_offsets(text: object) -> dict[Place, int]:
    """Read Spark's positions, `{"topic": {"0": 12}}`, as JSON text or object; empty for others."""
    offsets = json.loads(text) if isinstance(text, str) else text
    if not isinstance(offsets, Mapping):
        return {}
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in offsets.items()
        if isinstance(partitions, Mapping)
        for partition, offset in partitions.items()
    }
