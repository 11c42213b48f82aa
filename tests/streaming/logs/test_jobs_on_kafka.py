"""The jobs on real Spark and a real broker: what goes in, what comes out, and how they stop and fail."""

from __future__ import annotations

import random
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from prometheus_client import generate_latest

from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_streaming.errors import JobError
from culm_streaming.logs.job import LogsSettings
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.metrics import JobHealth, JobMetrics
from culm_streaming.progress import BatchProgress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.status import JobStatus
from culm_topics.catalogue.jobs import jobs_of
from culm_topics.errors import TopicMissing
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import BlockKind, ReceiptRecord
from culm_topics.logs.records import VersionVectorRecord as Vector
from culm_topics.process_status import ProcessStatus
from culm_topics.records import HEIGHTS_PEER_ID, log_key, version_vector_key
from tests.support.bamboo.bare_logs import make_bare_log, texts
from tests.support.kafka.topic_io import produce, produce_entries, read_all, read_logs, read_rejected
from tests.support.p2panda.logs import author, make_log
from tests.support.p2panda.logs_job import BROUGHT_BY, entry_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ALICE, BOB = author("alice"), author("bob")


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=3)
    admin.create(settings)
    return settings


def run_once(
    spark: SparkSession, kafka: KafkaSettings, path: Path, *jobs: str, verify: str = "full"
) -> list[BatchProgress]:
    seen: list[BatchProgress] = []
    run_jobs(
        spark,
        RunSettings(
            kafka=kafka,
            checkpoints=str(path),
            jobs=jobs,
            once=True,
            job_settings={
                "logs": LogsSettings(
                    verify="full" if verify == "full" else "chain",
                    max_offsets_per_trigger=40,
                    chain=ChainSettings(shards=3, blocks=2),
                )
            },
        ),
        stop=Event(),
        on_progress=seen.append,
    )
    return seen


def assert_logs(kafka: KafkaSettings, logs: list[list[CheckedOperation]]) -> None:
    stored = read_logs(kafka)
    for log in logs:
        assert [record.entry_hash for record in stored[log_key(*log[0].log)]] == [e.hash for e in log]


def test_logs_leave_in_order_across_batches_and_restarts_and_bad_records_are_told(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    chance = random.Random(7)
    logs = [make_log(ALICE, log_id, 12) for log_id in range(6)] + [make_log(BOB, 0, 40)]
    mixed = [entry for log in logs for entry in log for _ in range(2)]
    chance.shuffle(mixed)
    produce_entries(kafka, mixed[:90])
    run_once(spark, kafka, tmp_path, "logs")
    fork = make_log(BOB, 0, 1, text="other", after=logs[-1][:5])
    produce_entries(kafka, mixed[90:])
    produce_entries(kafka, fork)
    good = logs[0][3]
    forged = entry_value(good).replace(good.entry_bytes[-8:], bytes(8))
    key = log_key(*good.log)
    produce(kafka, "entries", [(b"k", b"junk"), (None, None), (key, forged), (key[:-1] + b"\xff", forged)])
    seen = run_once(spark, kafka, tmp_path, "logs")
    assert (sum(each.rejected for each in seen), sum(each.forks for each in seen)) == (5, 1)

    assert_logs(kafka, logs)
    rejected = read_rejected(kafka)
    by_code = {code: [r for r in rejected if r.code == code] for code in {r.code for r in rejected}}
    assert {code: len(refusals) for code, refusals in by_code.items()} == {
        "bamboo.fork": 1,
        "bamboo.signature": 2,
        "topics.record": 2,
    }
    assert by_code["bamboo.fork"][0].entry == fork[0].entry_bytes
    assert by_code["bamboo.fork"][0].first == logs[-1][5].entry_bytes
    assert by_code["bamboo.fork"][0].brought_by == BROUGHT_BY
    assert {record.entry for record in by_code["topics.record"]} == {b"junk", None}
    assert all(record.source and record.source[0] == kafka.topic("entries") for record in rejected)


def test_chain_verification_leaves_signatures_to_the_connectors(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    (entry,) = make_log(ALICE, 0, 1)
    forged = entry_value(entry).replace(entry.entry_bytes[-8:], bytes(8))
    produce(kafka, "entries", [(log_key(*entry.log), forged)])
    run_once(spark, kafka, tmp_path, "logs", verify="chain")
    assert len(read_logs(kafka)) == 1
    assert read_rejected(kafka) == []


def test_version_vectors_hold_the_highest_number_of_each_peer_and_the_log_heights(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    log = make_log(ALICE, 4, 30)
    produce_entries(kafka, log)
    run_once(spark, kafka, tmp_path, "logs")
    peer, other = bytes([1] * 32), bytes([255] * 32)
    key = ALICE.public_key
    numbers = [1, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
    receipts = [
        (peer, ReceiptRecord(((key, 4, 17), (key, 5, 2**63 + 5))).encode()),
        (other, ReceiptRecord(tuple((key, log_id, n) for log_id, n in enumerate(numbers))).encode()),
        (peer, ReceiptRecord(((key, 4, 3), (key, 5, 2**62))).encode()),
        (HEIGHTS_PEER_ID, ReceiptRecord(((key, 4, 1000),)).encode()),
        (b"short", ReceiptRecord(((key, 4, 1),)).encode()),
        (peer, b"junk"),
    ]
    produce(kafka, "receipts", receipts[:2])
    run_once(spark, kafka, tmp_path, "version-vectors")
    produce(kafka, "receipts", receipts[2:])
    run_once(spark, kafka, tmp_path, "version-vectors")

    latest = dict(read_all(kafka, "version-vectors"))
    expected = {
        version_vector_key(HEIGHTS_PEER_ID, key, 4): 30,
        version_vector_key(peer, key, 4): 17,
        version_vector_key(peer, key, 5): 2**63 + 5,
    } | {version_vector_key(other, key, log_id): n for log_id, n in enumerate(numbers)}
    assert latest == {row: Vector(n).encode() for row, n in expected.items()}
    rejected = read_rejected(kafka)
    assert [record.code for record in rejected] == ["topics.record"] * 3
    assert b"junk" in [record.entry for record in rejected]


def test_bare_logs_of_both_flavours_go_to_logs_and_the_other_jobs_pass_them_over(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    panda = make_log(BOB, 0, 5)
    bare = [make_bare_log(ALICE, 0, texts(9), flavour=flavour) for flavour in (YAMF, YASMF)]
    produce_entries(kafka, panda)
    for cut in (slice(5, None), slice(None, 5)):
        produce(
            kafka,
            "entries",
            [entry.arrival(0, inline=entry.seq_num < 5)[:2] for log in bare for entry in log[cut]],
        )
        run_once(spark, kafka, tmp_path, "logs")
    run_once(spark, kafka, tmp_path, "version-vectors", "blocks")
    assert_logs(kafka, [panda])
    stored = read_logs(kafka)
    for log in bare:
        assert stored[log[0].key] == [entry.log_record(inline=entry.seq_num < 5) for entry in log]
    heights = version_vector_key(HEIGHTS_PEER_ID, BOB.public_key, 0), Vector(5).encode()
    assert read_all(kafka, "version-vectors") == [heights]
    summaries = [key for key, _ in read_all(kafka, "blocks") if key and key[0] == BlockKind.SUMMARY]
    assert len(summaries) == 1
    assert read_rejected(kafka) == []


def test_jobs_run_until_told_to_stop_and_tell_their_metrics(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    log = make_log(ALICE, 0, 5)
    produce_entries(kafka, log)
    stop, metrics, seen = Event(), JobMetrics(), []
    status = JobStatus(ProcessStatus("job", kafka), JobHealth(), {"which": "all"})

    def on_progress(progress: BatchProgress) -> None:
        seen.append(progress)
        if {batch.job for batch in seen} == set(jobs_of("all")):
            stop.set()

    settings = RunSettings(kafka=kafka, checkpoints=str(tmp_path))
    run_jobs(spark, settings, stop=stop, metrics=metrics, status=status, on_progress=on_progress)
    queries = {query["job"]: query for query in status.document()["queries"]}
    assert {job: query["state"] for job, query in queries.items()} == dict.fromkeys(jobs_of("all"), "stopped")
    assert (queries["logs"]["rows_in"], queries["logs"]["rejected"]) == (5, 0)
    assert queries["logs"]["checkpoint"] == str(tmp_path / "logs")
    assert queries["logs"]["rows_per_second"] > 0
    assert sum(progress.rows_in for progress in seen if progress.job == "logs") == 5
    assert 'culm_job_rows_in_total{query="logs"} 5.0' in generate_latest(metrics.registry).decode()
    assert not spark.streams.active
    assert_logs(kafka, [log])


def test_a_job_that_cannot_go_on_stops_the_run_with_its_reason(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    missing = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    with pytest.raises(TopicMissing, match="entries"):
        run_jobs(spark, RunSettings(kafka=missing, checkpoints=str(tmp_path), jobs=("logs",)), stop=Event())
    assert not spark.streams.active


def test_a_checkpoint_is_not_continued_with_another_layout(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    log = make_log(ALICE, 0, 2)
    produce_entries(kafka, log[:1])
    run_once(spark, kafka, tmp_path, "logs")
    produce_entries(kafka, log[1:])
    settings = RunSettings(
        kafka=kafka,
        checkpoints=str(tmp_path),
        jobs=("logs",),
        once=True,
        job_settings={"logs": LogsSettings(chain=ChainSettings(shards=3, blocks=4))},
    )
    with pytest.raises(JobError, match="3 shards of 2 blocks"):
        run_jobs(spark, settings, stop=Event())
