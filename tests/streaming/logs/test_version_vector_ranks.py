"""Sequence numbers as Spark's signed integers and back: order kept, bytes as the record's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from culm_streaming import version_vectors
from culm_topics.logs.records import LogRecord, ReceiptRecord, VersionVectorRecord
from culm_topics.records import version_vector_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = sorted(
    {
        *(1, 2, 22, 23, 24, 25, 254, 255, 256, 257, 65_535, 65_536, 2**32 - 1, 2**32, 2**53 + 1),
        *(2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1),
    }
)


@pytest.mark.spark
def test_the_rank_of_a_record_of_logs_sorts_as_its_number_and_is_written_as_the_number_but_of_bare_logs(
    spark: SparkSession,
) -> None:
    rows = [
        (
            number.to_bytes(40, "big"),
            LogRecord(number, b"e", b"o", b"\x00\x20" + bytes(32), "s").encode()[:11],
            b"s",
        )
        for number in NUMBERS
    ]
    bare = [(bytes(40), rows[0][1], b"\x60"), (bytes(41), rows[0][1], b"\x60"), (bytes(41), rows[0][1], b"s")]
    junk = [
        (bytes(40), b"\x86\x02\x01", b"s"),
        (bytes(39), rows[0][1], b"s"),
        (bytes(40), b"\x86\x01\x41", b"s"),
        (bytes(40), b"", b""),
    ]
    frame = spark.createDataFrame([*rows, *bare, *junk], "key binary, start binary, last binary")
    ranked = frame.where(version_vectors._is_log_record()).select(
        "key", version_vectors._rank_of_record().alias("rank")
    )
    written = ranked.select("key", "rank", version_vectors._value_of_rank().alias("value")).collect()
    by_number = {int.from_bytes(row["key"], "big"): row for row in written}
    assert sorted(by_number) == NUMBERS
    ranks = [by_number[number]["rank"] for number in NUMBERS]
    assert ranks == [number - 2**63 for number in NUMBERS]
    values = [bytes(by_number[number]["value"]) for number in NUMBERS]
    assert values == [VersionVectorRecord(number).encode() for number in NUMBERS]


def test_receipts_of_one_batch_are_summed_up_before_they_travel() -> None:
    peer, author = bytes([5] * 32), bytes([6] * 32)
    receipts = [ReceiptRecord(((author, 1, number), (author, 2, 1))).encode() for number in (4, 9, 2)]
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([peer] * 3 + [b"bad"], pa.binary()),
            "value": pa.array([*receipts, b"x"], pa.binary()),
        }
    )
    (ranks,) = version_vectors.held_ranks(iter([batch]))
    assert ranks.to_pydict() == {
        "key": [version_vector_key(peer, author, 1), version_vector_key(peer, author, 2)],
        "rank": [9 - 2**63, 1 - 2**63],
    }
