"""The health of the jobs: ready, or the reasons why not; and metrics under names that others read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from prometheus_client import generate_latest

import culm_streaming
from culm_streaming.metrics import JobHealth, JobMetrics
from culm_streaming.progress import FORKS, OBSERVED, REJECTED, BatchProgress, read_progress
from culm_streaming.run import _Running
from culm_topics.records.rejected import code_prefix, rejection


def test_jobs_are_ready_while_there_is_no_reason_against_it() -> None:
    health = JobHealth()
    assert list(health.reasons) == ["starting"]
    health.set_reasons("Kafka has not answered for 9 s", "logs: 120 records behind")
    assert list(health.reasons) == ["Kafka has not answered for 9 s", "logs: 120 records behind"]
    health.set_reasons()
    assert not health.reasons


def test_a_process_that_stops_is_not_ready_by_any_account() -> None:
    metrics, health, status = JobMetrics(), JobHealth(), SimpleNamespace(state="running")
    settings, watch = SimpleNamespace(jobs=()), SimpleNamespace(is_up=True)
    session = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]"))
    parts: list[Any] = [session, settings, watch, None, metrics, health, status, None]
    metrics.set_health(kafka_up=True, ready=True)
    _Running(*parts).announce_stop()
    page = generate_latest(metrics.registry).decode()
    assert (health.reasons, status.state) == (("stopping",), "stopping")
    assert "culm_job_ready 0.0" in page and "culm_kafka_up 1.0" in page


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


def test_counters_of_faults_begin_at_0_and_the_time_of_a_commit_comes_with_its_micro_batch() -> None:
    metrics = JobMetrics()
    metrics.add("logs")
    page = generate_latest(metrics.registry).decode()
    assert 'culm_job_rejected_total{query="logs"} 0.0' in page
    assert 'culm_job_forks_total{query="logs"} 0.0' in page
    assert "culm_job_checkpoint_timestamp_seconds{" not in page
    metrics.set_checkpoint("logs", 1_500)
    metrics.record(BatchProgress("logs", 1, 9, 9, 20, {}, 0, 0, rejected=3, forks=2))
    page = generate_latest(metrics.registry).decode()
    assert 'culm_job_forks_total{query="logs"} 2.0' in page
    assert 'culm_job_checkpoint_timestamp_seconds{query="logs"} 1.5' in page
    metrics.record(BatchProgress("logs", 2, 1, 1, 20, {}, 0, 0, committed_ms=2_500))
    assert (
        'culm_job_checkpoint_timestamp_seconds{query="logs"} 2.5'
        in generate_latest(metrics.registry).decode()
    )


def test_a_commit_is_at_the_end_of_its_micro_batch() -> None:
    report = {
        "batchId": 4,
        "numInputRows": 3,
        "timestamp": "1970-01-01T00:00:02.500Z",
        "durationMs": {"triggerExecution": 700},
        "observedMetrics": {OBSERVED: {REJECTED: 2, FORKS: 1}},
    }
    progress = read_progress("logs", report)
    assert (progress.committed_ms, progress.rejected, progress.forks) == (3_200, 2, 1)


@pytest.mark.parametrize("code", ["bamboo.fork", "bamboo.fork_codec", "bamboo.for", "dag.fork"])
def test_a_record_of_rejected_begins_with_the_bytes_of_its_code_alone(code: str) -> None:
    record = rejection(code, "bamboo.fork", entry=b"bamboo.fork").encode()
    assert record.startswith(code_prefix(code))
    assert record.startswith(code_prefix("bamboo.fork")) == (code == "bamboo.fork")


# The process that Spark's Python workers are forked from.


_PROGRAM = """
import sys
import culm_streaming.daemon
jobs = ("culm_streaming.sds.job", "culm_streaming.logs.job")
for name in ("pandas", "pyarrow.compute", "pyspark.worker", *jobs):
    assert name in sys.modules, name
import os
from pathlib import Path
others = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
print(*[task.joinpath("comm").read_text().strip() for task in others])
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by Linux's /proc")
def test_no_thread_is_lost_when_a_worker_is_forked() -> None:
    answer = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    # jemalloc's starts anew in a forked process.
    assert set(answer.stdout.split()) <= {"jemalloc_bg_thd"}


def test_a_worker_imports_pyspark_compiled_and_not_from_the_zip_of_sources_that_spark_puts_in_front() -> None:
    zips = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    assert zips
    path = [*zips, Path(culm_streaming.__file__).parent / "worker_path"]
    program = (
        "import sys, json, py4j, pyspark.sql.streaming.transform_with_state_driver_worker as worker\n"
        "print(worker.__file__, py4j.__file__, *sys.path, sep='\\n')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    assert not [
        line for line in answer.stdout.splitlines() if "/python/lib/" in line or "worker_path" in line
    ]


def test_another_zip_and_another_sitecustomize_stay(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs ran')")
    (tmp_path / "their.zip").touch()
    path = [tmp_path / "their.zip", Path(culm_streaming.__file__).parent / "worker_path", tmp_path]
    answer = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.path, sep='\\n')"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines()[0] == "theirs ran"
    assert str(tmp_path / "their.zip") in answer.stdout.splitlines()
