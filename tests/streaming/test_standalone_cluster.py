"""Jobs on a standalone cluster: workers get their code in a packed environment; a lack of them is said."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import produce_entries, read_logs
from tests.support.p2panda.logs import author, make_log
from tests.support.process.waiting import looks, output_of
from tests.support.spark.cluster import pack_environment, running_spark_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]

DEADLINE_SECONDS = 240.0


def start(
    kafka: KafkaSettings, master: str, folder: Path, *options: str, once: bool = True
) -> subprocess.Popen[bytes]:
    arguments = [
        *("job", "run", "logs", "--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix),
        *("--master", master, "--checkpoints", str(folder / "checkpoints"), "--state-partitions", "1"),
        *("--shards", "1", "--quick-start", *(("--once",) if once else ())),
        *(part for option in options for part in ("--spark-option", option)),
    ]
    with (folder / "job.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "culm_infra", *arguments],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | {"CULM_STACK__DIRECTORY": str(folder / "stack"), "SPARK_LOCAL_IP": "127.0.0.1"},
        )


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    admin.create(settings)
    return settings


def test_workers_run_a_job_from_a_packed_environment(kafka: KafkaSettings, tmp_path: Path) -> None:
    archive = tmp_path / "culm-env.tar.gz"
    pack_environment(archive)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "env", filter="fully_trusted")
    log = make_log(author("alice"), 0, 20)
    produce_entries(kafka, log)
    with running_spark_cluster(tmp_path / "spark", workers=1, cores=2) as cluster:
        job = start(
            kafka,
            cluster.url,
            tmp_path,
            f"spark.archives={archive}#env",
            "spark.pyspark.python=./env/bin/python",
            "spark.executor.memory=512m",
        )
        try:
            assert job.wait(DEADLINE_SECONDS) == 0, (tmp_path / "job.log").read_text()
        finally:
            job.kill()
            job.wait(30)
    (records,) = read_logs(kafka).values()
    assert [record.entry_hash for record in records] == [checked.hash for checked in log]
    # The executor unpacked it: its code did not come from here.
    assert list((tmp_path / "spark" / "worker-1").glob("app-*/0/env/bin/python"))


def test_a_job_without_a_worker_says_so(kafka: KafkaSettings, tmp_path: Path) -> None:
    produce_entries(kafka, make_log(author("alice"), 0, 2))
    with running_spark_cluster(tmp_path / "spark", workers=0) as cluster:
        job = start(kafka, cluster.url, tmp_path, once=False)
        try:
            log = tmp_path / "job.log"
            expected = f"no worker of {cluster.url} takes the job's tasks"
            for _ in looks(expected, limit_s=DEADLINE_SECONDS, progress=output_of(log)):
                if expected in log.read_text():
                    break
                assert job.poll() is None, log.read_text()
        finally:
            job.kill()
            job.wait(30)
