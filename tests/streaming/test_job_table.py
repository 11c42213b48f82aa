"""Jobs before they run: the table that lists them, their settings, and the Spark options of operators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import pytest

from culm_infra.cli.job import chosen_jobs
from culm_infra.cli.root import run
from culm_infra.settings.tree import JobSection
from culm_models.lifts import LIFTS
from culm_streaming import session
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.errors import JobSettingsError, SparkSessionError, StateMissingError
from culm_streaming.jobs import StreamingJob, load_job
from culm_streaming.logs.log_table import LOG, SKIPLINK, TAIL, decode_block, encode_block, load_chunk
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.progress import BatchProgress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.sds.record import StoredJournal, segments
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.session import SparkSessionSettings, start_session
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.catalogue import jobs, registry
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka.acls import acls
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import JobSpec
from tests.support.kafka.topic_io import produce
from tests.support.spark import noop_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def noop(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(registry, "JOBS", (*registry.JOBS, noop_job.ENTRY))
    return noop_job.ENTRY.name


@pytest.mark.parametrize("job", registry.JOBS, ids=lambda job: job.name)
def test_every_job_is_loaded_and_its_topics_are_in_the_catalogue(job: JobSpec) -> None:
    loaded = load_job(job.name)
    assert isinstance(loaded, StreamingJob)
    assert loaded.settings() == loaded.settings()
    assert {spec(name).name for name in (*job.reads, *job.writes)} == {*job.reads, *job.writes}


def test_names_are_of_one_job_and_groups_come_first() -> None:
    names = [job.name for job in registry.JOBS]
    assert len(set(names)) == len(names)
    assert jobs.groups() == ("all", "coverage", "documents", "sds", "chotki", "dag")
    assert jobs.jobs_of("all") == ("logs", "version-vectors", "blocks")
    assert jobs.jobs_of("sds") == ("sds", "sds-index")
    assert jobs.jobs_of("coverage") == ("coverage",)
    assert jobs.jobs_of("blocks") == ("blocks",)
    with pytest.raises(KeyError):
        jobs.jobs_of("tide")


def test_the_table_is_read_without_spark() -> None:
    program = (
        "import sys; from culm_infra.cli.root import run; status = run(['job', 'list']);"
        "heavy = {'pyspark', 'pandas', 'aioquic', 'lmdb', 'pyarrow', 'confluent_kafka'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("names", [["tide"], ["all", "tide"]])
def test_a_job_that_is_not_there_is_a_usage_error(
    names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "run", *names]) == 2
    shown = capsys.readouterr().err
    assert "'tide'" in shown and "culm job list" in shown


def test_one_process_runs_several_jobs_and_groups_each_job_once() -> None:
    assert chosen_jobs(["documents", "all", "logs"]) == ("documents", "logs", "version-vectors", "blocks")


def test_a_process_of_several_names_serves_its_metrics_on_the_port_of_the_first_that_has_one() -> None:
    section = JobSection(metrics_port={"all": 9101, "documents": 9102})
    assert section.metrics_port_of("all+documents") == 9101
    assert section.metrics_port_of("documents+all") == 9102
    assert section.metrics_port_of("sds+documents") == 9102
    assert section.metrics_port_of("sds+dag") is None
    assert JobSection(metrics_port=9100).metrics_port_of("sds+dag") == 9100


def test_a_job_of_one_entry_is_listed_and_has_its_rights(
    noop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (rows[-1]["name"], rows[-1]["reads"]) == (noop, ["version-vectors"])
    rights = acls(KafkaSettings(bootstrap="none"), ("job",))
    assert "Read" in {right.operation for right in rights if right.name == "culm.version-vectors"}


@pytest.mark.kafka
@pytest.mark.spark
def test_a_job_of_one_entry_runs(
    noop: str, spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    admin.create(kafka)
    produce(kafka, "version-vectors", [(b"key", b"value")])
    seen: list[BatchProgress] = []
    settings = RunSettings(
        kafka=kafka, checkpoints=str(tmp_path), jobs=jobs.jobs_of(noop_job.ENTRY.group), once=True
    )
    run_jobs(spark, settings, stop=Event(), on_progress=seen.append)
    assert [(progress.job, progress.rows_in) for progress in seen] == [(noop, 1)]
    assert (tmp_path / noop).is_dir()


# What an operator's Spark options do to ours: lists are added to, everything else wins.


class Builder:
    """Takes what a session is built with, and builds none."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}

    def master(self, name: str) -> Builder:
        return self.config("spark.master", name)

    def appName(self, name: str) -> Builder:
        return self.config("spark.app.name", name)

    def config(self, name: str, text: str) -> Builder:
        self.properties[name] = text
        return self

    def getOrCreate(self) -> None:
        raise RuntimeError("none is built")


def built_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **options: str) -> dict[str, str]:
    jar = tmp_path / "ours.jar"
    jar.touch()
    builder = Builder()
    monkeypatch.setattr(session, "SparkSession", type("Session", (), {"builder": builder}))
    with pytest.raises(SparkSessionError, match="none is built"):
        start_session(
            SparkSessionSettings(
                jars=(jar,), options={name.replace("_", "."): text for name, text in options.items()}
            )
        )
    return builder.properties


@pytest.fixture(autouse=True)
def no_python_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)


def test_jars_and_java_options_are_added_to_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    properties = built_with(
        monkeypatch,
        tmp_path,
        spark_jars="theirs.jar",
        spark_driver_extraJavaOptions="-Da=b",
        spark_ui_enabled="true",
    )
    assert properties["spark.jars"] == f"{tmp_path / 'ours.jar'},theirs.jar"
    assert properties["spark.driver.extraJavaOptions"].endswith("GC -Da=b")
    assert properties["spark.ui.enabled"] == "true"


def test_workers_run_the_python_of_the_option_else_of_the_environment_else_this_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built_with(monkeypatch, tmp_path)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/culm/bin/python")
    built_with(monkeypatch, tmp_path)
    assert os.environ["PYSPARK_PYTHON"] == "/opt/culm/bin/python"
    built_with(monkeypatch, tmp_path, spark_pyspark_python="./env/bin/python")
    assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"


# Settings of jobs that cannot be, and state that is not whole, are errors with a code.


SALTED = tuple(lift.name for lift in LIFTS if lift.salt_bytes)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChainSettings(shards=0),
        lambda: ChainSettings(shards=1025),
        lambda: ChainSettings(blocks=65_536),
        lambda: ChainSettings(max_early_per_log=0),
        lambda: ChainSettings(max_early_bytes_per_log=2**32),
        lambda: HeightsSettings(block_bits=17),
        lambda: HeightsSettings(shards=0),
        lambda: HeightsSettings(chunk_rows=0),
        lambda: HeightsSettings(recent_rows=0),
        lambda: HeightsSettings(lifts=SALTED),
        lambda: ChannelsSettings(shards=0),
        lambda: ChannelsSettings(wake_ms=0),
        lambda: ChannelsSettings(wake_ms=30_001),
        lambda: ChannelsSettings(tokens=0),
        lambda: ChannelsSettings(ids_per_key=0),
        lambda: replace(ChannelsSettings(), filter_bytes=-1),
    ],
)
def test_settings_that_cannot_be_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(JobSettingsError) as refused:
        make()
    assert refused.value.code == "streaming.settings"


def test_a_chunk_of_history_that_is_gone_is_told() -> None:
    with pytest.raises(StateMissingError, match="chunk 3"):
        load_chunk(MemoryState(), bytes(40), 3)


def test_a_chunk_of_a_journal_that_is_gone_is_told() -> None:
    with pytest.raises(StateMissingError, match="chunk 0"):
        list(segments(MemoryState(), b"c", StoredJournal(ends=[5], mark=5), 0))


def test_a_block_of_another_size_is_told() -> None:
    blob = encode_block(np.zeros(1, LOG), np.zeros(0, SKIPLINK), np.zeros(0, TAIL))
    assert len(decode_block(blob)[0]) == 1
    with pytest.raises(StateMissingError):
        decode_block(blob + b"\x00")
