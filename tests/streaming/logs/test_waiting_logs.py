"""The job `logs` tells of logs that wait for entries which retention removed before it had read them."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from prometheus_client import generate_latest

from culm_models.p2panda.operations.operation import CheckedOperation
from culm_streaming.logs.packing import pack_records
from culm_streaming.logs.rows import unpack_rows
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.logs.state import MemoryShardStore
from culm_streaming.logs.step import step
from culm_streaming.metrics import JobMetrics
from culm_streaming.progress import Waiting
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.supervision import waiting
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.logs import author, make_log
from tests.support.shards import arrivals
from tests.support.topic_io import expire, produce_entries, read_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ChainSettings(shards=1, blocks=2)


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    admin.create(settings)
    return settings


@pytest.mark.kafka
@pytest.mark.spark
def test_logs_whose_entries_expired_unread_are_counted_and_told_once(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = [make_log(author("a"), log_id, 3) for log_id in range(2)]
    produce_entries(kafka, [log[0] for log in logs])
    expire(kafka, "entries")
    metrics = JobMetrics()

    def run() -> str:
        settings = RunSettings(kafka=kafka, checkpoints=str(tmp_path), jobs=("logs",), once=True)
        run_jobs(spark, settings, stop=Event(), metrics=metrics)
        return generate_latest(metrics.registry).decode()

    with caplog.at_level(logging.INFO, "culm_streaming"):
        produce_entries(kafka, [logs[0][1], logs[0][2], logs[1][1]])
        assert 'culm_job_waiting{query="logs"} 2.0' in run()
        assert read_logs(kafka) == {}
        assert caplog.text.count("2 records of") == 1, "they were gone when the job began"
        assert 'culm_job_expired_records{query="logs"} 2.0' in generate_latest(metrics.registry).decode()
        told = [one.getMessage() for one in caplog.records if one.name == waiting.__name__]
        assert len(told) == 1 and told[0].startswith("2 logs wait")
        assert "culm logs repair" in caplog.text
        produce_entries(kafka, [logs[0][0], logs[1][0]])
        text = run()
    assert 'culm_job_waiting{query="logs"} 0.0' in text
    assert 'culm_job_waiting_since_timestamp_seconds{query="logs"} 0.0' in text
    assert sorted(map(len, read_logs(kafka).values())) == [2, 3]


def take(store: MemoryShardStore, entries: list[CheckedOperation], now_ms: int) -> Waiting | None:
    packed = [
        (rows.heads, rows.sizes, rows.values)
        for rows in pack_records(arrivals(entries), SETTINGS, verify_signature=False)
    ]
    return step(store, unpack_rows(packed), SETTINGS, lambda *_: None, now_ms=now_ms).waiting


def test_a_shard_knows_how_many_logs_wait_and_since_when_there_was_always_one() -> None:
    store = MemoryShardStore()
    a, b = (make_log(author("a"), log_id, 4) for log_id in range(2))
    assert take(store, a[:1], 1) is None
    assert take(store, a[2:], 2) == Waiting(1, 2)
    assert take(store, b[1:2], 3) == Waiting(2, 2)
    assert take(store, b[1:2], 4) == Waiting(2, 2), "a repeat"
    assert take(store, a[1:2], 5) == Waiting(1, 2)
    assert take(store, b[:1], 6) == Waiting(0, 0)
    assert take(store, b[2:3], 7) is None
    assert take(store, b[3:] + make_log(author("c"), 0, 2)[1:], 8) == Waiting(1, 8)


def test_the_state_of_an_earlier_version_is_counted() -> None:
    store = MemoryShardStore()
    logs = [make_log(author("a"), log_id, 3) for log_id in range(5)]
    take(store, [log[1] for log in logs], 5)
    assert store.totals is not None
    store.totals = b"\x01" + store.totals[1:20]
    assert take(store, logs[0][:1], 9) == Waiting(4, 9)
