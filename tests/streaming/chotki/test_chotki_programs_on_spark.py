"""A program writes, the job on real Spark merges, another program reads: all on a real broker."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from culm_models.chotki.ids import Id
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.chotki.changes import Edit, EditClass, NewClass, NewObject, Plus
from culm_topics.chotki.consumer import ChotkiConsumer, ClassChange, ObjectChange
from culm_topics.chotki.values import Elements, Pairs, Term
from culm_topics.chotki.writer import ChotkiWriter
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import read_rejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

EVERY_TYPE = {
    "F": "F",
    "I": "I",
    "R": "R",
    "S": "S",
    "T": "T",
    "N": "N",
    "Z": "Z",
    "E": "E",
    "M": "M",
    "V": "V",
}


def test_what_one_program_writes_another_reads(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=3)
    admin.create(kafka)

    def merge() -> None:
        run_jobs(
            spark,
            RunSettings(kafka=kafka, checkpoints=str(tmp_path), jobs=("chotki",), once=True),
            stop=Event(),
        )

    with (
        ChotkiWriter(kafka, owner="a", source=10) as writer_a,
        ChotkiWriter(kafka, owner="b", source=11) as writer_b,
    ):
        writer_a.write(NewClass(EVERY_TYPE, "everything"))
        (first,) = writer_a.write(
            NewObject("everything", {"F": 2.5, "I": -1, "S": "tide", "N": 2, "E": [1, "a"]}, "first")
        )
        merge()
        # The other source sees the class, and both edit one object at once.
        (second,) = writer_b.write(NewObject("everything", {"R": first, "T": Term("word")}))
        assert first is not None and second is not None
        writer_a.write(Edit(first, {"N": Plus(3), "Z": 5, "M": {"k": 1, "l": 2}, "E": ["a", "b"]}))
        writer_b.write(Edit(first, {"N": Plus(10), "Z": -2, "V": {7: Id.make(7, 1).pro}}))
        merge()
        writer_a.write(Edit(first, {"M": {"l": 2}}), EditClass("everything", {"More": "S"}, {"S": "Text"}))
        merge()
        last = [writer_a.last_id, writer_b.last_id]

    with ChotkiConsumer(kafka, stop_at_end=True) as consumer:
        changes = list(consumer)
        assert [consumer.vector[id.src] for id in last if id] == [id.pro for id in last if id]
        merged = consumer.get("first")
    assert merged is not None
    assert merged.fields == {
        "F": 2.5,
        "I": -1,
        "R": Id(0, 0),
        "Text": "tide",
        "T": Term(""),
        "N": 15,
        "Z": 3,
        "E": Elements(["a", "b"]),
        "M": Pairs([("l", 2)]),
        "V": {7: Id.make(7, 1).pro},
        "More": None,
    }
    assert isinstance(merged["E"], Elements) and merged["E"].removed == (1,)
    assert isinstance(merged["M"], Pairs) and merged["M"].removed == ("k",)
    assert {id.object.id for id in changes if isinstance(id, ObjectChange)} >= {first, second}
    # What several epochs changed comes as it stands, so the class may come once, in its last form.
    assert [change.epoch for change in changes if isinstance(change, ClassChange)][-1] == 3
    assert read_rejected(kafka) == []
