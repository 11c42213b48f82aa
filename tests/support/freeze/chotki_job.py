"""The checkpoint of the job `chotki` with its topics, and what comes of both when more records come.

What waits in the checkpoint: a packet and a sync whose ground comes later, and one piece of a large operand.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import cbor2

from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.rdx import parse_text, parse_vector, write_vector
from culm_streaming.chotki.job import ChotkiJobSettings
from culm_streaming.chotki.rows import TOPICS, InputTopic
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.chotki.records import (
    BlockVectorRecord,
    CommitRecord,
    EpochRecord,
    FieldRecord,
    RecordOrigin,
    block_partition,
    is_epoch_key,
    is_field_key,
    received,
)
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.streaming.chotki.test_chotki_epochs import edit, story
from tests.support.chotki.job import ChotkiTopics
from tests.support.freeze import frozen
from tests.support.freeze.jobs import adopt
from tests.support.freeze.topics import Input, keep_topics, restore_topics, write
from tests.support.kafka.broker import running_broker
from tests.support.kafka.topic_io import read_all, read_rejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "chotki-checkpoint"
PREFIX = "frozen-chotki."
PARTITIONS = 2
JOB = "chotki"
_PEER = RecordOrigin(b"frozen edge".ljust(32, b"."), 0xC, 1)
_LARGE = object_key(Id.make(0xC, 2, 1), "S")


def inputs() -> tuple[list[Input], list[Input]]:
    """What comes first, and what comes later."""
    whole = ChotkiTopics(PARTITIONS)
    story(whole, 1)
    whole.packet(_PEER, Id.make(0xD, 1).pro, edit(0xD, 2, 5))
    first = {partition: list(records) for partition, records in whole.records.items()}
    at = Id.make(0xC, 2)
    vector = write_vector({0xC: at.pro})
    text = parse_text("S", '"in two pieces"')
    with patch.object(received, "MAX_PIECE_BYTES", len(text) // 2 + 1):
        whole.operand(_PEER, _LARGE, text)
    pieces = (InputTopic.FIELDS, block_partition(_LARGE, PARTITIONS))
    first[pieces] = whole.records[pieces][:1]
    whole.operand(_PEER, vector_key(at), vector)
    whole.commit(CommitRecord(_PEER, at, vector, b"", whole.ends()))
    # The commit comes before the fields of its sync.
    first[InputTopic.COMMITS, 0] = list(whole.records[InputTopic.COMMITS, 0])
    story(whole, 2)
    whole.packet(_PEER, 0, edit(0xD, 1, 4))
    later = {
        partition: records[len(first.get(partition, ())) :] for partition, records in whole.records.items()
    }
    return _rows(first), _rows(later)


def _rows(topics: dict[Any, list[tuple[bytes, bytes]]]) -> list[Input]:
    return [
        (TOPICS[source], partition, key, value)
        for (source, partition), records in topics.items()
        for key, value in records
    ]


def make_job(folder: Path) -> None:
    """The fixture, and the outcome of one uninterrupted run over the same records."""
    from tests.support.spark.session import spark_session

    first, later = inputs()
    with running_broker(folder / "kafka") as broker:
        spark = spark_session()
        kafka = settings(broker.bootstrap)
        admin.create(kafka)
        kept = folder / "kept"
        write(kafka, first)
        run(spark, kafka, kept / "checkpoints")
        keep_topics(kafka, kept / "topics.cbor")
        (kept / "later.cbor").write_bytes(cbor2.dumps(later))
        frozen.pack(kept, NAME)

        whole = kafka.model_copy(update={"prefix": "whole."})
        admin.create(whole)
        write(whole, first + later)
        run(spark, whole, folder / "whole")
        frozen.keep(NAME, outcome(whole))
        spark.stop()


def settings(bootstrap: str) -> KafkaSettings:
    """The deployment of the fixture."""
    return KafkaSettings(bootstrap=bootstrap, prefix=PREFIX, partitions=PARTITIONS)


def run(spark: SparkSession, kafka: KafkaSettings, checkpoints: Path) -> None:
    """Have the job take what is there, in several micro-batches."""
    job_settings = {JOB: ChotkiJobSettings(max_offsets_per_trigger=30)}
    todo = RunSettings(
        kafka=kafka, checkpoints=str(checkpoints), jobs=(JOB,), once=True, job_settings=job_settings
    )
    run_jobs(spark, todo, stop=Event())


def restore(kafka: KafkaSettings, folder: Path) -> list[Input]:
    """Put the fixture's topics on this broker, and its checkpoint in the folder; the records to come."""
    frozen.unpack(NAME, folder)
    restore_topics(kafka, folder / "topics.cbor")
    adopt(kafka, folder, (JOB,))
    later = cbor2.loads((folder / "later.cbor").read_bytes())
    return [(name, partition, key, value) for name, partition, key, value in later]


def outcome(kafka: KafkaSettings) -> dict[str, Any]:
    """The newest of each key of `chotki.state`, but for how many epochs it took."""
    state = {key: value for key, value in read_all(kafka, "chotki.state") if key is not None}
    fields = {key: FieldRecord.decode(value).value for key, value in state.items() if is_field_key(key)}
    marks = [EpochRecord.decode(value) for key, value in state.items() if is_epoch_key(key)]
    assert len(marks) == PARTITIONS and len(set(marks)) == 1
    return {
        "fields": fields,
        "blocks": {
            key: BlockVectorRecord.decode(value).vector
            for key, value in state.items()
            if not is_field_key(key) and not is_epoch_key(key)
        },
        "vector": {f"{src:x}": f"{pro:x}" for src, pro in parse_vector(marks[0].vector).items()},
        "covered": [dict(offsets) for offsets in (marks[0].packets, marks[0].fields, marks[0].commits)],
        "rejected": [record.code for record in read_rejected(kafka)],
    }
