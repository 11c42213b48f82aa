"""`culm job run documents` killed with all that runs below it, repeatedly, and resumed on its checkpoint.

What it has written in the end is byte for byte what a job writes that was never killed, on another number of
cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from culm_infra.demo.kit.processes import CulmProcess, environment, running
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.p2panda.documents.record import DocumentRecord
from tests.support.kafka.topic_io import end_offsets, produce
from tests.support.p2panda.documents_job import Histories, assert_reduced, histories, in_logs, written
from tests.support.process.waiting import await_output

# Minutes long; restarts of the job are also in `test_documents_on_kafka`.
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1_800)]

DOCUMENTS = 60
OPERATIONS = 40
KILLED_AT = (30, 200, 500)
"""Records of `documents` behind which the job is killed."""


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings)
    return settings


@pytest.fixture
def jobs() -> Iterator[list[CulmProcess]]:
    started: list[CulmProcess] = []
    with running(started):
        yield started


def job(kafka: KafkaSettings, folder: Path, cores: int) -> CulmProcess:
    where = ("--master", f"local[{cores}]", "--checkpoints", str(folder / "checkpoints"))
    arguments = ("job", "run", "documents", *where, "--max-offsets", "100")
    folder.mkdir(exist_ok=True)
    return CulmProcess("the job documents", arguments, environment(kafka), folder / "job.log")


def has_written(kafka: KafkaSettings, count: int) -> bool:
    return sum(end_offsets(kafka, "documents").values()) >= count


def test_a_job_killed_at_any_moment_writes_in_the_end_what_one_writes_that_never_was(
    kafka: KafkaSettings, tmp_path: Path, jobs: list[CulmProcess]
) -> None:
    documents = histories(DOCUMENTS, OPERATIONS)
    records = in_logs(documents, seed=1)
    undisturbed = kafka.model_copy(update={"prefix": f"{kafka.prefix}undisturbed."})
    admin.create(undisturbed)
    for settings in (kafka, undisturbed):
        produce(settings, "logs", records)

    other = job(undisturbed, tmp_path / "undisturbed", cores=2)
    jobs.append(other)
    other.start()
    await_output(other, lambda: _is_reduced(undisturbed, documents))
    other.stop()
    expected = written(undisturbed)
    assert_reduced(expected, documents)

    for number, count in enumerate(KILLED_AT):
        killed = job(kafka, tmp_path / "killed", cores=1 + number % 2)
        jobs.append(killed)
        killed.start()
        await_output(killed, partial(has_written, kafka, count))
        killed.kill_tree()
        assert written(kafka) != expected, "it was killed too late"
    last = job(kafka, tmp_path / "killed", cores=2)
    jobs.append(last)
    last.start()
    await_output(last, lambda: written(kafka) == expected)
    last.stop()


def _is_reduced(kafka: KafkaSettings, documents: Histories) -> bool:
    versions = [DocumentRecord.decode(value).version for value in written(kafka).values()]
    return sum(versions) == sum(map(len, documents))
