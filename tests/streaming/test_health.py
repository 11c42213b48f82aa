"""The port of the jobs: ready, or the reasons why not; and metrics under names that others read."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest

from culm_streaming.errors import StreamingError
from culm_streaming.health import Health, serve_health
from culm_streaming.metrics import JobMetrics


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_jobs_are_ready_while_there_is_no_reason_against_it() -> None:
    metrics, health = JobMetrics(), Health()
    with serve_health("127.0.0.1", 0, metrics.registry, lambda: health.reasons) as port:
        assert get(port, "/livez") == (200, "ok\n")
        assert get(port, "/readyz") == (503, "starting\n")
        health.set_reasons("Kafka has not answered for 9 s", "logs: 120 records behind")
        assert get(port, "/readyz") == (503, "Kafka has not answered for 9 s\nlogs: 120 records behind\n")
        health.set_reasons()
        assert get(port, "/readyz") == (200, "ready\n")
        assert get(port, "/else")[0] == 404


def test_no_label_is_one_of_prometheus_own_and_the_process_is_among_the_metrics() -> None:
    metrics = JobMetrics()
    metrics.set_up("logs", is_up=True)
    metrics.set_progress("logs")
    metrics.set_lag("logs", {("culm.entries", 0): 7})
    metrics.set_health(kafka_up=True, ready=False)
    with serve_health("127.0.0.1", 0, metrics.registry, tuple) as port:
        page = get(port, "/metrics")[1]
    assert 'job="' not in page
    assert 'instance="' not in page
    assert 'culm_job_lag_records{partition="0",query="logs",topic="culm.entries"} 7.0' in page
    for name in ("culm_kafka_up 1.0", "culm_last_progress_timestamp_seconds{", "culm_build_info{version="):
        assert name in page
    assert "process_resident_memory_bytes" in page


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(StreamingError, match=f"127.0.0.1:{port}: Address already in use"),
            serve_health("127.0.0.1", port, JobMetrics().registry, tuple),
        ):
            pass
