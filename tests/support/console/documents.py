"""Status documents and metrics of processes, made by the code that serves them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from culm_connectors.edge.protocol_metrics import SessionMetrics, families
from culm_connectors.metric_families import gauge
from culm_streaming.metrics import JobHealth, JobMetrics
from culm_streaming.progress import BatchProgress
from culm_streaming.status import JobStatus
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.process_status import ProcessStatus

KAFKA = KafkaSettings(bootstrap="127.0.0.1:9092", prefix="culm.")
COMMITTED_MS = 1_700_000_001_000
PROTOCOL = {
    "ready": True,
    "reasons": [],
    "doors": {"p2panda/1": "127.0.0.1:4455"},
    "connections": 2,
    "connections_total": 60,
    "refused": {},
    "closed": {},
    "peers": [{"peer": "ab" * 32, "address": "10.0.0.7:1000"}],
    "bytes_in": 1_000,
    "bytes_out": 2_000,
    "staged_records": 3,
    "rejected": {"bamboo.signature": 4},
    "sessions_failed": {"transport.closed": 1},
    "lag": {"culm.logs": 12, "culm.entries": 0},
}


def connector(reasons: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """Return the document of a connector that serves two protocols."""
    fields = {
        "directory": "/srv/edge",
        "peer_id": "cd" * 32,
        "metrics_port": 9100,
        "last_progress_ms": 1_700_000_000_000,
        "in_flight_records": 5,
        "protocols": {"p2panda": PROTOCOL, "sds": PROTOCOL | {"connections": 1, "lag": None}},
    }
    return dict(ProcessStatus("connector", KAFKA).document("running", reasons, **fields)) | changes


def jobs(which: str = "all", reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the document of a process that runs the job `logs`."""
    health = JobHealth()
    health.set_reasons(*reasons)
    fields = {"which": which, "jobs": ["logs"], "master": "local[2]", "checkpoints": "/srv/checkpoints"}
    status = JobStatus(ProcessStatus("job", KAFKA), health, fields | {"spark_log": "/srv/spark.log"})
    status.add("logs", "/srv/checkpoints/logs")
    status.set_state("logs", "running")
    status.record(batch())
    status.set_lag("logs", {("culm.entries", 0): 5, ("culm.entries", 1): 7}, is_stalled=False)
    return dict(status.document())


def batch() -> BatchProgress:
    """Return a micro-batch of the job `logs`."""
    return BatchProgress(
        job="logs",
        batch_id=7,
        rows_in=600,
        rows_out=590,
        rejected=10,
        duration_ms=250,
        state_rows=4,
        state_bytes=4_096,
        lag={},
        committed_ms=COMMITTED_MS,
    )


def encoded(document: dict[str, Any]) -> bytes:
    """Return a document as a status socket sends it."""
    return json.dumps(document).encode()


class _Families:
    def __init__(self, *metrics: Any) -> None:
        self._metrics = metrics

    def collect(self) -> Any:
        return self._metrics


def connector_metrics(*, ready: bool = True, bytes_in: int = 1_000) -> bytes:
    """Return the metrics of a connector, rendered as its port does."""
    measured = {
        "p2panda": SessionMetrics(
            connections=2, bytes_in=bytes_in, bytes_out=2_000, rejects=Counter({"a": 3, "b": 1}),
            sessions_failed=Counter({"x": 2}),
        ),
        "sds": SessionMetrics(connections=1),
    }  # fmt: skip
    build = GaugeMetricFamily("culm_build_info", "1, with the version", labels=["version"])
    build.add_metric(["1.2.3"], 1)
    lag = GaugeMetricFamily("culm_topic_lag_records", "records", labels=["protocol", "topic"])
    lag.add_metric(["p2panda", "culm.logs"], 12)
    lag.add_metric(["p2panda", "culm.entries"], 3)
    registry = CollectorRegistry()
    registry.register(
        _Families(
            build,
            lag,
            gauge("culm_connector_ready", "1 while /readyz answers 200", float(ready)),
            gauge("culm_last_progress_timestamp_seconds", "time", 1_700_000_000.5),
            *families(measured),
        )
    )
    return generate_latest(registry)


def job_metrics() -> bytes:
    """Return the metrics of a process that runs the job `logs`."""
    metrics = JobMetrics()
    metrics.set_up("logs", is_up=True)
    metrics.set_health(kafka_up=True, ready=True)
    metrics.set_lag("logs", {("culm.entries", 0): 5, ("culm.entries", 1): 7})
    metrics.add_failure("logs", "kafka")
    metrics.set_progress("logs")
    metrics.record(batch())
    return generate_latest(metrics.registry)
