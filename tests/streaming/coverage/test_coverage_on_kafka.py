"""The job `coverage` on real Spark and a real broker, over restarts, and with the job that feeds it."""

from __future__ import annotations

import random
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_streaming.coverage.job import CoverageSettings
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import CoverageRecord, coverage_key
from culm_topics.records import HEIGHTS_PEER_ID
from tests.support.bamboo.bare_logs import make_bare_log
from tests.support.kafka.topic_io import produce, read_all, read_logs, read_rejected
from tests.support.p2panda.coverage_job import CoverageWorld, Said, in_fragments, in_holdings, in_payloads
from tests.support.p2panda.logs import author

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PEER = b"p" * 32
LARGE = bytes(range(256)) * 3_000
"""Two chunks."""


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings)
    return settings


def say(kafka: KafkaSettings, records: list[Said]) -> None:
    for topic in ("fragments", "payloads", "holdings"):
        produce(kafka, topic, [(record.key, record.value) for record in records if record.topic == topic])


def test_coverage_is_kept_by_peer_and_log_over_restarts(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    log = make_bare_log(
        author("alice"), 0, [LARGE if n in (2, 30) else b"joint %d" % n for n in range(1, 41)]
    )
    key = log[0].key
    pool = [log[number - 1] for number in sorted({*lower_pool(30), *upper_pool(30)})]
    records = [
        *in_fragments(pool),
        *in_payloads(log[29]),
        *in_payloads(log[1]),
        in_holdings(PEER, key, ((1, 41),), ((1, 41),)),
        in_holdings(PEER, key, dropped=((3, 5),)),
        Said("holdings", PEER, b"junk"),
    ]
    settings = RunSettings(
        kafka=kafka,
        checkpoints=str(tmp_path),
        jobs=("logs", "coverage"),
        once=True,
        job_settings={
            "coverage": CoverageSettings(
                max_offsets_per_trigger=3,
                max_fragments_per_trigger=5,
                max_payload_chunks_per_trigger=2,
                layout=CoverageLayout(shards=3, blocks=2),
            )
        },
    )
    chance = random.Random(5)
    halves = [[], []]  # type: list[list[Said]]
    for record in records[:-3]:
        halves[chance.randrange(2)].append(record)
    halves[1] += records[-3:]
    for half, entries in zip(halves, (log[:2], log[2:5]), strict=True):
        say(kafka, half)
        produce(kafka, "entries", [entry.arrival(0, inline=entry.seq_num != 2)[:2] for entry in entries])
        run_jobs(spark, settings, stop=Event())
    run_jobs(spark, settings, stop=Event())  # what the job `logs` wrote last

    world = CoverageWorld()
    world.run([record._replace(offset=offset) for offset, record in enumerate(records)])
    world.run([Said("logs", key, record.encode()) for record in read_logs(kafka)[key]])
    coverages = {
        row_key: CoverageRecord.decode(value) for row_key, value in read_all(kafka, "coverage") if row_key
    }
    assert coverages == {
        coverage_key(HEIGHTS_PEER_ID, key): world.of(key),
        coverage_key(PEER, key): world.of(key, PEER),
    }
    coverage = coverages[coverage_key(HEIGHTS_PEER_ID, key)]
    assert coverage.payloads == ((1, 6), (30, 31)) and any(
        start <= 30 < end for start, end in coverage.provable
    )
    assert [record.entry for record in read_rejected(kafka)] == [b"junk"]
