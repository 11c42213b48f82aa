"""The job `sds-index`: `sds.messages` to `sds.index`: where in the store each message lies.

Stateless: a record of the store and its place give the record of the index. What is no record of the store
goes to `rejected`. Partition n points into partition n.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import rejection
from culm_topics.sds.records import SdsIndexRecord, SdsMessageRecord, check_of, index_key, split_channel_key

_INDEXED = "is_rejected boolean, key binary, value binary, partition int"
_ARROW = pa.schema(
    [("is_rejected", pa.bool_()), ("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32())]
)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class SdsIndexSettings:
    """Messages are large, and looked at one by one."""

    max_offsets_per_trigger: int = 20_000


def sds_index_query(session: SparkSession, kafka: KafkaSettings, settings: SdsIndexSettings) -> DataFrame:
    """The stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`."""
    messages = kafka_source(
        session, kafka, ("sds.messages",), max_offsets_per_trigger=settings.max_offsets_per_trigger
    ).select("key", "value", "partition", "offset")
    indexed = messages.mapInArrow(_indexer(kafka.topic("sds.messages")), _INDEXED)
    topic = F.when(F.col("is_rejected"), F.lit(kafka.topic("rejected"))).otherwise(
        F.lit(kafka.topic("sds.index"))
    )
    return indexed.select(topic.alias("topic"), "key", "value", "partition")


JOB = StreamingJob(sds_index_query, SdsIndexSettings)


def _indexer(topic: str) -> Any:
    def index(batches: Batches) -> Batches:
        for batch in batches:
            columns = (batch[name].to_pylist() for name in ("key", "value", "partition", "offset"))
            rows = [
                index_record(key, value, (topic, partition, offset))
                for key, value, partition, offset in zip(*columns, strict=True)
            ]
            yield pa.RecordBatch.from_pylist(
                [dict(zip(_ARROW.names, row, strict=True)) for row in rows], _ARROW
            )

    return index


def index_record(
    key: bytes | None, value: bytes | None, place: tuple[str, int, int]
) -> tuple[bool, bytes, bytes, int | None]:
    """(whether it is refused, key, value, partition) of what is written for one record of the store."""
    _, partition, offset = place
    try:
        channel_id = split_channel_key(key)
        message = SdsMessageRecord.decode(value)
    except RecordError as error:
        return True, b"", rejection(error.code, str(error), entry=value, source=place).encode(), None
    record = SdsIndexRecord(
        partition,
        offset,
        message.lamport_timestamp,
        message.sender_id,
        len(message.wire),
        check_of(message.wire),
        message.retrieval_hint,
    )
    return False, index_key(channel_id, message.message_id), record.encode(), partition
