"""The job `version-vectors`: for each peer and log, the highest sequence number that the peer holds.

Receipts state what peers hold. `logs` itself gives the height of each log, which is written under the
all-zero peer. Both are maxima, so Spark's own aggregation keeps them and Python processes only the receipts.
A malformed receipt goes to `rejected`. A row is written if its key occurred in a micro-batch.

Bare logs may have gaps, which a maximum cannot express: they are skipped here, and the job `coverage` handles
them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_records, kafka_source
from culm_streaming.stateful.shard_step import (
    RECORDS,
    Batches,
    Piece,
    columns_of,
    map_batches,
    rows_of,
    with_full_topics,
)
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import decode_receipt
from culm_topics.records import HEIGHTS_PEER_ID, LOG_KEY_SIZE, reject_malformed

_LOWEST = -(1 << 63)
"""The lowest signed 64-bit number.

Sequence numbers are unsigned 64-bit numbers, Spark's integers are signed: a *rank* is the number minus 2**63.
Ranks sort as the numbers do.
"""

_EMPTY_TEXT = b"\x60"

_HELD = pa.schema([("key", pa.binary()), ("rank", pa.int64())])


@dataclass(frozen=True, slots=True)
class VersionVectorsSettings:
    """Settings of the job.

    A receipt may hold tens of thousands of rows, so a micro-batch has far fewer of them.
    """

    max_offsets_per_trigger: int = 250_000
    max_receipts_per_trigger: int = 5_000


def version_vectors_query(
    session: SparkSession, kafka: KafkaSettings, settings: VersionVectorsSettings
) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`. Its output mode is `update`."""
    logs = kafka_source(
        session, kafka, ("logs",), max_offsets_per_trigger=settings.max_offsets_per_trigger
    ).select("key", F.substring("value", 1, 11).alias("start"), F.substring("value", -1, 1).alias("last"))
    receipts = kafka_records(session, kafka, "receipts", settings.max_receipts_per_trigger)

    heights = logs.where(_is_log_record()).select(
        F.concat(F.lit(HEIGHTS_PEER_ID), "key").alias("key"), _rank_of_record().alias("rank")
    )
    receipt_ranks = receipts.mapInArrow(held_ranks, "key binary, rank long")
    highest = heights.union(receipt_ranks).groupBy("key").agg(F.max("rank").alias("rank"))
    vectors = highest.select(
        F.lit(kafka.topic("version-vectors")).alias("topic"), "key", _value_of_rank().alias("value")
    )
    refused = map_batches(receipts, partial(_refused, topic=kafka.topic("receipts")), RECORDS)
    return vectors.union(with_full_topics(refused, kafka).drop("partition"))


JOB = StreamingJob(version_vectors_query, VersionVectorsSettings, output_mode="update")


def _is_log_record() -> Column:
    """Whether key and value start like a record of `logs`; the record of a bare log ends with an empty text.

    The job `blocks` reports the malformed ones.
    """
    head = F.substring("start", 1, 3)
    return (
        (F.length("key") == LOG_KEY_SIZE)
        & head.between(F.lit(bytes((0x86, 1, 1))), F.lit(bytes((0x86, 1, 0x1B))))
        & (F.col("last") != F.lit(_EMPTY_TEXT))
    )


def _rank_of_record() -> Column:
    """Return the rank of the sequence number at the start of a record of `logs`."""
    first = F.conv(F.hex(F.substring("start", 3, 1)), 16, 10).cast("int")
    # A CBOR head of 24 to 27 announces 1, 2, 4 or 8 bytes.
    argument = (
        F.when(first < 24, F.substring("start", 3, 1))
        .when(first == 24, F.substring("start", 4, 1))
        .when(first == 25, F.substring("start", 4, 2))
        .when(first == 26, F.substring("start", 4, 4))
        .otherwise(F.substring("start", 4, 8))
    )
    return F.conv(F.hex(argument), 16, -10).cast("long").bitwiseXOR(F.lit(_LOWEST))


def _value_of_rank() -> Column:
    """Return the value of `version-vectors` like `VersionVectorRecord.encode`: `[1, seq_num]`."""
    rank = F.col("rank")
    number = F.unhex(F.lpad(F.hex(rank.bitwiseXOR(F.lit(_LOWEST))), 16, "0"))

    def encoded(head: bytes, size: int) -> Column:
        return F.concat(F.lit(bytes((0x82, 1)) + head), F.substring(number, 9 - size, size))

    return (
        F.when(rank < _LOWEST + 24, encoded(b"", 1))
        .when(rank < _LOWEST + (1 << 8), encoded(b"\x18", 1))
        .when(rank < _LOWEST + (1 << 16), encoded(b"\x19", 2))
        .when(rank < _LOWEST + (1 << 32), encoded(b"\x1a", 4))
        .otherwise(encoded(b"\x1b", 8))
    )


def held_ranks(batches: Batches) -> Batches:
    """Reduce receipts to one row per peer and log: the key in `version-vectors`, and the highest rank."""
    for batch in batches:
        highest: dict[bytes, int] = {}
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            try:
                peer_id, receipt = decode_receipt(key, value)
            except RecordError:
                continue  # `_refused` reports it.
            for public_key, log_id, seq_num in receipt.log_heights:
                row = peer_id + public_key + log_id.to_bytes(8, "big")
                if seq_num > highest.get(row, 0):
                    highest[row] = seq_num
        ranks = [seq_num + _LOWEST for seq_num in highest.values()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(highest), pa.binary()), pa.array(ranks, pa.int64())], schema=_HELD
        )


def _refused(batches: Batches, *, topic: str) -> Iterator[Piece]:
    for batch in batches:
        refusals = []
        for key, value, partition, offset in rows_of(batch):
            try:
                decode_receipt(key, value)
            except RecordError as error:
                source = (topic, partition, offset)
                refusals.append(("rejected", *reject_malformed(error, value, source), None))
        yield columns_of(refusals)
