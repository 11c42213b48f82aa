"""The job `dag` on real Spark and a real broker, over restarts; then all of it rebuilt from the sources."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from culm_connectors.dag.deployment import import_into_topics, read_deployment
from culm_connectors.dag.store.exporting import export_dags
from culm_models.dag.errors import RulesDiffer
from culm_models.dag.publish.states import PublishState
from culm_models.dag.validation_rules import ValidationRules
from culm_streaming.dag.job import DagJobSettings, dag_query
from culm_streaming.dag.settings import DagLayout
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.dag.orders import read_orders
from culm_topics.dag.records import (
    PublishedRecord,
    cid_partition,
    split_shard_chunk_key,
    split_shard_index_key,
)
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.models.dag.test_dag_publishing import GRANT, ID, LEAF_CAR, ROOT_CAR, WHOLE, delegated
from tests.streaming.dag.test_dag_job_step import (
    LARGE_CAR,
    WITH_LARGE,
    dropped,
    in_nodes,
    in_publishes,
    in_shards,
)
from tests.support.dag.job import DagWorld, Sent
from tests.support.kafka.topic_io import produce, read_all, read_records, read_rejected, write_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DERIVED = ("dag.heads", "dag.published", "dag.shard-index")


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings)
    return settings


def say(kafka: KafkaSettings, records: list[Sent]) -> None:
    for topic in ("dag.nodes", "dag.publishes", "dag.blocked"):
        produce(kafka, topic, [(record.key, record.value) for record in records if record.topic == topic])
    by_cid(kafka, [record for record in records if record.topic == "dag.shards"])


def by_cid(kafka: KafkaSettings, chunks: list[Sent]) -> None:
    """As connectors do: all of a shard lies in the partition of its CID."""
    partitions = [cid_partition(split_shard_chunk_key(chunk.key)[0], 2) for chunk in chunks]
    write_records(
        kafka,
        "dag.shards",
        [(partition, chunk.key, chunk.value) for partition, chunk in zip(partitions, chunks, strict=True)],
    )


def told(kafka: KafkaSettings) -> tuple[dict[tuple[str, bytes], bytes], dict[bytes, list[object]]]:
    """The last value of each key of what is derived, and the orders."""
    last: dict[tuple[str, bytes], bytes] = {}
    for topic in DERIVED:
        for key, value in read_all(kafka, topic):
            assert key is not None
            if value is None:
                last.pop((topic, key), None)
            else:
                last[topic, key] = value
    return last, {id: list(order.links) for id, order in read_orders(kafka)[0].items()}


def test_what_follows_from_the_sources_is_written_over_restarts_and_is_the_same_when_rebuilt(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    first = delegated()
    second = delegated(first.cid, origin=WITH_LARGE.cid)
    records = [
        in_nodes(WHOLE),
        in_nodes(WITH_LARGE),
        in_nodes(GRANT),
        in_publishes(first),
        in_publishes(second),
        *in_shards(ROOT_CAR),
        *in_shards(LEAF_CAR),
        *in_shards(LARGE_CAR),
        Sent("dag.nodes", b"junk", b"junk"),
    ]
    chance = random.Random(7)
    chance.shuffle(records)
    settings = RunSettings(
        kafka=kafka,
        checkpoints=str(tmp_path / "one"),
        jobs=("dag",),
        once=True,
        job_settings={
            "dag": DagJobSettings(
                max_offsets_per_trigger=2, max_chunks_per_trigger=2, layout=DagLayout(shards=2)
            )
        },
    )
    say(kafka, records[:6])
    run_jobs(spark, settings, stop=Event())
    say(kafka, [*records[6:], *dropped(LEAF_CAR)])
    run_jobs(spark, settings, stop=Event())

    world = DagWorld()
    world.run([*records, *dropped(LEAF_CAR)])
    derived = told(kafka)
    assert derived == world.picture
    assert PublishedRecord.decode(derived[0]["dag.published", ID]).state is PublishState.PENDING
    assert [record.entry for record in read_rejected(kafka)] == [b"junk"]
    for partition, key, _ in read_records(kafka, "dag.shard-index"):
        assert partition == cid_partition(split_shard_index_key(key)[0], 2)

    # R28: one record decides for the deployment, and this job has others.
    with pytest.raises(RulesDiffer, match="policy is bearer here and bound there"):
        dag_query(spark, kafka, DagJobSettings(verdict=ValidationRules(policy="bearer")))

    # Reference 9: from the sources alone, in another order, all that is derived comes out byte for byte.
    again = KafkaSettings(bootstrap=kafka.bootstrap, prefix=f"{kafka.prefix}-again", partitions=2)
    admin.create(again)
    chance.shuffle(records)
    say(again, [*records, *dropped(LEAF_CAR)])
    run_jobs(spark, replace(settings, kafka=again, checkpoints=str(tmp_path / "two")), stop=Event())
    assert told(again) == derived

    # The same from an export of the topics into empty ones.
    with read_deployment(kafka) as folder:
        export_dags(folder, tmp_path / "export")
    imported = KafkaSettings(bootstrap=kafka.bootstrap, prefix=f"{kafka.prefix}-imported", partitions=2)
    admin.create(imported)
    import_into_topics(imported, tmp_path / "export")
    run_jobs(spark, replace(settings, kafka=imported, checkpoints=str(tmp_path / "three")), stop=Event())
    assert told(imported) == derived
