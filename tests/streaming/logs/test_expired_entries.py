"""Entries that expire before the job `logs` has read them get to `logs` all the same: an edge has them.

One real broker, the real job, a connector and a peer; the topic is emptied as retention would do.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from culm_connectors.logs.lost_entries.settings import RepairSettings
from culm_infra.cli.root import app
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_streaming.logs.job import LogsSettings
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.metrics import JobMetrics
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import log_key
from tests.support.connectors.edge import Edge, connector, reference_peer, running, topics
from tests.support.kafka.topic_io import expire, read_logs, read_rejected
from tests.support.p2panda.logs import SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LOG = make_log(author("writer"), 0, 9)
OTHER = make_log(author("other"), 3, 2)


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return topics(kafka_bootstrap, topic_prefix)


def edge_in(folder: Path, kafka: KafkaSettings, **repair: Any) -> Edge:
    return connector(folder / "edge", kafka, schemas=(SCHEMA,), repair=RepairSettings(**repair))


async def bring(folder: Path, edge: Edge, *logs: list[CheckedOperation]) -> None:
    """Have a peer bring these logs to an edge."""
    assert edge.address is not None
    async with reference_peer(folder, "peer", schemas=[SCHEMA], live_mode=False) as peer:
        for log in logs:
            await peer.add(pairs(log))
        await peer.sync(edge.address)
    await until(lambda: all(edge.index.store.height(*log[0].log) == len(log) for log in logs))


def repair(folder: Path, kafka: KafkaSettings, *more: str) -> tuple[int, dict[str, Any]]:
    """Run the command; returns its exit status and what it said."""
    options = ["--dir", str(folder / "edge"), "--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix]
    done = CliRunner().invoke(app, ["logs", "repair", "--json", *options, *more])
    return done.exit_code, json.loads(done.stdout)


async def test_what_expired_unread_is_produced_again_by_a_command_and_by_the_edge_itself(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = JobMetrics()

    async def run_job(checkpoints: str) -> None:
        chain = ChainSettings(shards=2, blocks=2)
        settings = RunSettings(
            kafka=kafka,
            checkpoints=str(tmp_path / checkpoints),
            jobs=("logs",),
            job_settings={"logs": LogsSettings(chain=chain)},
            once=True,
        )
        await asyncio.to_thread(run_jobs, spark, settings, stop=Event(), metrics=metrics)

    def measured(name: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"query": "logs"})

    def heights() -> dict[bytes, int]:
        return {key: len(log) for key, log in read_logs(kafka, drop_repeats=True).items()}

    key, other_key = log_key(*LOG[0].log), log_key(*OTHER[0].log)
    async with running(edge_in(tmp_path, kafka, enabled=False)) as edge:
        await bring(tmp_path, edge, LOG[:6], OTHER)
        expire(kafka, "entries")
        await bring(tmp_path, edge, LOG[:8])
    await run_job("first")
    assert heights() == {}
    assert (measured("culm_job_waiting"), measured("culm_job_expired_records")) == (1, 8)
    messages = [record.getMessage() for record in caplog.records if record.name == "culm_streaming.metrics"]
    assert len(messages) == 1 and "culm logs repair" in messages[0]
    assert "8 records of" in caplog.text, "they were gone when the job began"

    status, report = await asyncio.to_thread(repair, tmp_path, kafka, "--dry-run")
    assert (status, report["produced"]) == (3, 0)
    assert {(row["public_key"], row["first"], row["last"]) for row in report["logs"]} == {
        (LOG[0].entry.public_key.hex(), 1, 8),
        (OTHER[0].entry.public_key.hex(), 1, 2),
    }
    only_other = ("--author", OTHER[0].entry.public_key.hex())
    assert await asyncio.to_thread(repair, tmp_path, kafka, *only_other) == (
        0,
        {"logs": [row for row in report["logs"] if row["log_id"] == 3], "missing_logs": 0, "produced": 2},
    )
    status, report = await asyncio.to_thread(repair, tmp_path, kafka)
    assert (status, report["produced"], len(report["logs"])) == (0, 8, 1), "the other log is to be read now"
    await run_job("first")
    assert heights() == {key: 8, other_key: 2}
    assert (measured("culm_job_waiting"), measured("culm_job_waiting_since_timestamp_seconds")) == (0, 0)
    assert await asyncio.to_thread(repair, tmp_path, kafka) == (
        0,
        {"logs": [], "missing_logs": 0, "produced": 0},
    )

    # A job without its checkpoint knows nothing of what is on `logs`, and needs all of it again.
    expire(kafka, "entries")
    async with running(edge_in(tmp_path, kafka, after_s=0.5)) as edge:
        await bring(tmp_path, edge, LOG)
        await run_job("second")
        assert heights()[key] == 8
        watch = edge.p2panda.parts.logs.lost_entries
        await until(lambda: watch.produced >= 9)
        await run_job("second")
        assert heights() == {key: 9, other_key: 2}
        await until(lambda: not watch.unrepaired)
    assert read_rejected(kafka) == []
