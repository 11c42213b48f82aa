"""`culm job run dag` killed with all that runs below it, again and again, and resumed on its checkpoint.

What it says in the end is byte for byte what a job says that was never killed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from culm_infra.demo.kit.processes import CulmProcess, environment, running
from culm_models.dag.blocks.cid import CAR, RAW, cid_of
from culm_models.dag.car import write_car
from culm_models.dag.replica.codec import encode_append
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.models.dag.signers import KEYS
from tests.models.dag.test_dag_publishing import GRANT, delegated
from tests.streaming.dag.test_dag_job_step import dropped, in_nodes, in_publishes, in_shards
from tests.streaming.dag.test_dag_on_kafka import say, told
from tests.support.dag.job import DagWorld, Sent
from tests.support.kafka.topic_io import end_offsets
from tests.support.process.waiting import await_output

# Minutes long; that a killed job loses nothing is also what `test_demo_dag` sees, each time.
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1_200)]

PUBLISHES = 40
KILLED_AT = (1, 5, 9)
"""Records of `dag.heads` behind which the job is killed."""


def history(chance: random.Random) -> list[Sent]:
    """Publishes on any of those before, their nodes and shards, of which some are dropped; in any order."""
    records = [in_nodes(GRANT)]
    origins, tips = [encode_append([])], [delegated()]
    late: list[Sent] = []
    for number in range(PUBLISHES):
        block = b"block %d" % number
        link = cid_of(RAW, block)
        car = write_car([], [(link, block)])
        origins.append(encode_append([cid_of(CAR, car)], chance.choice(origins).cid))
        tips.append(delegated(chance.choice(tips).cid, link=link, origin=origins[-1].cid))
        records += in_shards(car)
        if number % 7 == 0:
            late += dropped(car)
    spaces = list(KEYS[:3])
    records += [in_nodes(origin, chance.choice(spaces)) for origin in origins]
    records += map(in_publishes, tips)
    chance.shuffle(records)
    return records + late


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings)
    return settings


def job(kafka: KafkaSettings, path: Path) -> CulmProcess:
    arguments = ("job", "run", "dag", "--master", "local[2]", "--checkpoints", str(path / "checkpoints"))
    few = {"CULM_JOB__DAG__MAX_OFFSETS_PER_TRIGGER": "10", "CULM_JOB__DAG__MAX_CHUNKS_PER_TRIGGER": "8"}
    path.mkdir()
    return CulmProcess("the job dag", arguments, environment(kafka) | few, path / "job.log")


@pytest.fixture
def jobs() -> Iterator[list[CulmProcess]]:
    started: list[CulmProcess] = []
    with running(started):
        yield started


def has_told(kafka: KafkaSettings, count: int) -> bool:
    return sum(end_offsets(kafka, "dag.heads").values()) >= count


def test_a_job_killed_at_any_moment_says_in_the_end_what_one_says_that_never_was(
    kafka: KafkaSettings, tmp_path: Path, jobs: list[CulmProcess]
) -> None:
    records = history(random.Random(5))
    world = DagWorld()
    world.run(records)
    say(kafka, records)
    killed = job(kafka, tmp_path / "killed")
    jobs.append(killed)
    for count in KILLED_AT:
        killed.start()
        await_output(killed, partial(has_told, kafka, count))
        killed.kill_tree()
        assert told(kafka) != world.picture, "it was killed too late"
    killed.start()
    await_output(killed, lambda: told(kafka) == world.picture)
    killed.stop()

    undisturbed = kafka.model_copy(update={"prefix": f"{kafka.prefix}undisturbed."})
    admin.create(undisturbed)
    say(undisturbed, records)
    other = job(undisturbed, tmp_path / "undisturbed")
    jobs.append(other)
    other.start()
    await_output(other, lambda: told(undisturbed) == world.picture)
    other.stop()
    assert told(kafka) == told(undisturbed)
