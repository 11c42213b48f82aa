"""Spark reads an export as docs/chotki.md says: the newest row of each object, in one schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

from culm_topics.chotki.changes import Edit, EditClass, NewClass, NewObject
from culm_topics.chotki.parquet import write_tables
from tests.support.chotki.programs import ORIGIN, Programs

pytestmark = pytest.mark.spark


def test_spark_reads_the_newest_row_of_each_object(spark: SparkSession, tmp_path: Path) -> None:
    programs = Programs()
    programs.write(
        NewClass({"Name": "S", "Tags": "E", "Visits": "N", "Notes": "M", "Seen": "V", "List": "L"}, "person"),
        NewObject(
            "person", {"Name": "Ann", "Tags": ["old", "kept"], "Visits": 2**63, "Notes": {"k": 1}}, "ann"
        ),
        NewObject("person", {"Name": "Ben"}, "ben"),
    )
    programs.merge()
    write_tables(programs.state, ORIGIN, tmp_path)
    programs.write(EditClass("person", {"Mail": "S"}, {"Name": "Title"}))
    programs.write(Edit("ann", {"Title": "Dr", "Tags": ["kept"], "Mail": "a@b", "Seen": {1: 4096}}))
    programs.merge()
    write_tables(programs.state, ORIGIN, tmp_path)

    people = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "person"))
    newest = Window.partitionBy("_id").orderBy(f.desc("epoch"))
    people = people.withColumn("n", f.row_number().over(newest)).where("n = 1").drop("n")
    tags = f.transform("Tags.present", lambda tag: tag.s)
    read = people.select("Name", tags, "Mail", "Visits", "Notes.present", "Seen", "epoch").orderBy("Name")
    (ben, ann) = [tuple(row) for row in read.collect()]
    assert ann == ("Dr", ["kept"], "a@b", 2**63, ann[4], {"1": 4096}, 2)
    assert [(pair.key.s, pair.value.i) for pair in ann[4]] == [("k", 1)]
    assert ben == ("Ben", [], None, 0, [], {}, 1)
    assert people.where(f.exists("Tags.removed", lambda tag: tag.s == "old")).count() == 1
