"""The job `documents` on real Spark and a real broker, in small batches and over restarts."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from culm_streaming.errors import StateMissingError
from culm_streaming.kafka_io.fetching import RecordFetcher
from culm_streaming.p2panda_documents.fetching import FieldsFetcher
from culm_streaming.p2panda_documents.job import DocumentsSettings
from culm_streaming.p2panda_documents.packing import encoded_fields
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import log_key
from tests.support.kafka.topic_io import end_offsets, produce, read_rejected
from tests.support.p2panda.documents_job import assert_reduced, histories, in_logs, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings)
    return settings


def test_documents_are_those_of_the_model_and_equal_bytes_over_restarts(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    documents = histories(8, 20)
    records = in_logs(documents, seed=3)
    half = len(records) // 2

    def run(kafka: KafkaSettings, checkpoints: str, batch: int) -> dict[bytes, bytes]:
        job = DocumentsSettings(batch, DocumentsLayout(shards=3, blocks=2))
        settings = RunSettings(
            kafka=kafka,
            checkpoints=str(tmp_path / checkpoints),
            jobs=("documents",),
            once=True,
            job_settings={"documents": job},
        )
        run_jobs(spark, settings, stop=Event())
        return written(kafka)

    produce(kafka, "logs", records[:half])
    run(kafka, "restarted", 40)
    produce(kafka, "logs", [*records[half:], (log_key(b"k" * 32, 7), b"junk")])
    in_parts = run(kafka, "restarted", 40)
    assert_reduced(in_parts, documents)
    assert [record.entry for record in read_rejected(kafka)] == [b"junk"]
    # From the beginning, in one batch, behind what is there: the newest records are the same bytes.
    assert run(kafka, "anew", 10_000) == in_parts


def test_fields_of_an_operation_are_read_in_logs_by_its_place(kafka: KafkaSettings) -> None:
    (made,) = histories(1, 30)
    records = in_logs([made], seed=1)
    produce(kafka, "logs", records)
    places = [
        (partition, offset) for partition, end in end_offsets(kafka, "logs").items() for offset in range(end)
    ]
    fetch = FieldsFetcher(RecordFetcher.of(kafka, "logs"), max_value_bytes=100)
    found = dict(fetch(places))
    expected = [encoded_fields(added.operation, 100) for added in made]
    assert sorted(map(repr, found.values())) == sorted(map(repr, expected))
    with pytest.raises(StateMissingError):
        list(fetch([(0, 1_000)]))
