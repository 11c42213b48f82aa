"""The health of the jobs: ready, or the reasons why not; and metrics under names that others read."""

from __future__ import annotations

from prometheus_client import generate_latest

from culm_streaming.metrics import Health, JobMetrics


def test_jobs_are_ready_while_there_is_no_reason_against_it() -> None:
    health = Health()
    assert list(health.reasons) == ["starting"]
    health.set_reasons("Kafka has not answered for 9 s", "logs: 120 records behind")
    assert list(health.reasons) == ["Kafka has not answered for 9 s", "logs: 120 records behind"]
    health.set_reasons()
    assert not health.reasons


def test_no_label_is_one_of_prometheus_own_and_the_process_is_among_the_metrics() -> None:
    metrics = JobMetrics()
    metrics.set_up("logs", is_up=True)
    metrics.set_progress("logs")
    metrics.set_lag("logs", {("culm.entries", 0): 7})
    metrics.set_health(kafka_up=True, ready=False)
    page = generate_latest(metrics.registry).decode()
    assert 'job="' not in page
    assert 'instance="' not in page
    assert 'culm_job_lag_records{partition="0",query="logs",topic="culm.entries"} 7.0' in page
    for name in ("culm_kafka_up 1.0", "culm_last_progress_timestamp_seconds{", "culm_build_info{version="):
        assert name in page
    assert "process_resident_memory_bytes" in page
