"""The table of jobs: all that is there can be loaded, and a job is added by one entry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from culm_infra.cli.root import run
from culm_streaming.jobs import StreamingJob, load_job
from culm_streaming.progress import BatchProgress
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.catalogue import jobs, registry
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka.acls import acls
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import JobSpec
from tests.support import noop_job
from tests.support.topic_io import produce

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
    assert jobs.groups() == ("all", "coverage", "sds", "chotki", "dag")
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


def test_a_job_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["job", "run", "tide"]) == 2
    assert "culm job list" in capsys.readouterr().err


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
