"""The job `sds-index`: `sds.messages` to `sds.index`, the position of each message in the store.

Stateless: a record of the store and its position give the record of the index. Malformed records go to
`rejected`. Partition n points into partition n.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_records
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
from culm_topics.records import reject_malformed
from culm_topics.sds.keys import index_key, split_channel_key
from culm_topics.sds.records import SdsIndexRecord, SdsMessageRecord, check_of


@dataclass(frozen=True, slots=True)
class SdsIndexSettings:
    """Settings of the job. Messages are large, and processed one by one."""

    max_offsets_per_trigger: int = 20_000


def sds_index_query(session: SparkSession, kafka: KafkaSettings, settings: SdsIndexSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`."""
    messages = kafka_records(session, kafka, "sds.messages", settings.max_offsets_per_trigger)
    pack = partial(_pack, topic=kafka.topic("sds.messages"))
    return with_full_topics(map_batches(messages, pack, RECORDS), kafka)


JOB = StreamingJob(sds_index_query, SdsIndexSettings)


def _pack(batches: Batches, *, topic: str) -> Iterator[Piece]:
    for batch in batches:
        yield columns_of(
            index_record(key, value, (topic, partition, offset))
            for key, value, partition, offset in rows_of(batch)
        )


def index_record(
    key: bytes | None, value: bytes | None, position: tuple[str, int, int]
) -> tuple[str, bytes, bytes, int | None]:
    """Return (topic, key, value, partition) of the record for one record of the store."""
    _, partition, offset = position
    try:
        channel_id = split_channel_key(key)
        message = SdsMessageRecord.decode(value)
    except RecordError as error:
        return "rejected", *reject_malformed(error, value, position), None
    record = SdsIndexRecord(
        partition,
        offset,
        message.lamport_timestamp,
        message.sender_id,
        len(message.wire),
        check_of(message.wire),
        message.retrieval_hint,
    )
    return "sds.index", index_key(channel_id, message.message_id), record.encode(), partition
