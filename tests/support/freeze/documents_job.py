"""The checkpoint of the job `documents` with its topics, and what comes of both when more records come.

In the checkpoint wait logs whose first operation follows one that comes later, and operations of known
documents. One document fills several pages and lies beside its block.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import cbor2

from culm_streaming.p2panda_documents.job import DocumentsSettings
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import log_key
from tests.support.freeze import frozen
from tests.support.freeze.jobs import adopt
from tests.support.freeze.topics import keep_topics, restore_topics
from tests.support.kafka.broker import running_broker
from tests.support.kafka.topic_io import produce
from tests.support.p2panda.document_histories import history
from tests.support.p2panda.documents_job import histories, in_logs, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "documents-checkpoint"
PREFIX = "frozen-documents."
JOB = "documents"
Records = list[tuple[bytes, bytes]]
"""Keys and values of records of `logs`."""


def inputs() -> tuple[Records, Records]:
    """What comes first, and what comes later: the logs with the creates of four documents, and the newest."""
    documents = [*histories(8, 20), history(99, 1_200, late=0.1, deletes=0.01)]
    held = {log_key(made[0].author, number) for number, made in enumerate(documents[:4])}
    records = in_logs(documents, seed=5)
    now = [record for record in records[:-200] if record[0] not in held]
    return now, [record for record in records[:-200] if record[0] in held] + records[-200:]


def make_job(folder: Path) -> None:
    """The fixture, and the outcome of one uninterrupted run over the same records."""
    from tests.support.spark.session import spark_session

    first, later = inputs()
    with running_broker(folder / "kafka") as broker:
        spark = spark_session()
        kafka = settings(broker.bootstrap)
        admin.create(kafka)
        kept = folder / "kept"
        produce(kafka, "logs", first)
        run(spark, kafka, kept / "checkpoints")
        keep_topics(kafka, kept / "topics.cbor")
        (kept / "later.cbor").write_bytes(cbor2.dumps(later))
        frozen.pack(kept, NAME)

        whole = kafka.model_copy(update={"prefix": "whole."})
        admin.create(whole)
        produce(whole, "logs", first + later)
        run(spark, whole, folder / "whole")
        frozen.keep(NAME, written(whole))
        spark.stop()


def settings(bootstrap: str) -> KafkaSettings:
    """The deployment of the fixture."""
    return KafkaSettings(bootstrap=bootstrap, prefix=PREFIX, partitions=2)


def run(spark: SparkSession, kafka: KafkaSettings, checkpoints: Path) -> None:
    """Have the job take what is there, in several micro-batches."""
    job_settings = {JOB: DocumentsSettings(400, DocumentsLayout(shards=3, blocks=2))}
    todo = RunSettings(
        kafka=kafka, checkpoints=str(checkpoints), jobs=(JOB,), once=True, job_settings=job_settings
    )
    run_jobs(spark, todo, stop=Event())


def restore(kafka: KafkaSettings, folder: Path) -> Records:
    """Put the fixture's topics on this broker, and its checkpoint in the folder; the records to come."""
    frozen.unpack(NAME, folder)
    restore_topics(kafka, folder / "topics.cbor")
    adopt(kafka, folder, (JOB,))
    return [(key, value) for key, value in cbor2.loads((folder / "later.cbor").read_bytes())]
