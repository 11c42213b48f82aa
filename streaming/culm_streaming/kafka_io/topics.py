"""Kafka as Spark's source and sink, with the settings that every job shares."""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from culm_topics.kafka.clients import KafkaSettings, spark_options
from culm_topics.kafka.job_positions import job_group_prefix
from culm_topics.topic_spec import MAX_MESSAGE_BYTES

_PRODUCER = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.compression.type": "lz4",
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 * 1024),
    "kafka.buffer.memory": str(64 * 1024 * 1024),
    # The broker checks the size of a batch; the client must not be stricter than the topic.
    "kafka.max.request.size": str(2 * MAX_MESSAGE_BYTES),
}


def kafka_source(
    session: SparkSession,
    kafka: KafkaSettings,
    names: Sequence[str],
    *,
    max_offsets_per_trigger: int,
    start: Mapping[str, Mapping[int, int]] | None = None,
) -> DataFrame:
    """Return a stream of the records of topics of the catalogue, from their beginning without a checkpoint.

    `start` gives other starting offsets by topic and partition. Records that were removed before they were
    read stop the query: continuing would break logs silently.
    """
    offsets = "earliest"
    if start is not None:
        offsets = json.dumps({kafka.topic(name): ends for name, ends in start.items()})
    return (
        session.readStream.format("kafka")
        .options(**spark_options(kafka))
        .option("groupIdPrefix", job_group_prefix(kafka))
        .option("subscribe", ",".join(kafka.topic(name) for name in names))
        .option("startingOffsets", offsets)
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", str(max_offsets_per_trigger))
        .load()
    )


def kafka_records(session: SparkSession, kafka: KafkaSettings, name: str, max_offsets: int) -> DataFrame:
    """Return `key`, `value`, `partition` and `offset` of a topic's records, `max_offsets` per micro-batch."""
    records = kafka_source(session, kafka, (name,), max_offsets_per_trigger=max_offsets)
    return records.select("key", "value", "partition", "offset")


def kafka_table(session: SparkSession, kafka: KafkaSettings, name: str) -> DataFrame:
    """Return all records that a topic of the catalogue holds now."""
    return (
        session.read.format("kafka")
        .options(**spark_options(kafka))
        .option("groupIdPrefix", job_group_prefix(kafka))
        .option("subscribe", kafka.topic(name))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )


def staged_kafka_sink(
    records: DataFrame, kafka: KafkaSettings, checkpoint: str, stages: int
) -> DataStreamWriter:
    """Return the writer of `stage`, `topic`, `key`, `value`, `partition`, stage by stage.

    Kafka has acknowledged all records of a stage before the next one begins.

    The records of a micro-batch are computed once, and cached until its last stage is written.
    """

    def write(batch: DataFrame, _: int) -> None:
        batch.persist()
        try:
            for stage in range(stages):
                write_stage(batch.where(F.col("stage") == stage).drop("stage"), stage, kafka)
        finally:
            batch.unpersist()

    return records.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)


def write_stage(records: DataFrame, stage: int, kafka: KafkaSettings) -> None:
    """Write the records of one stage; returns when Kafka has acknowledged all of them."""
    records.write.format("kafka").options(**_PRODUCER | spark_options(kafka)).save()


def kafka_sink(records: DataFrame, kafka: KafkaSettings, checkpoint: str) -> DataStreamWriter:
    """Return the writer of `topic`, `key`, `value` to Kafka.

    It writes at least once, in the order of each partition.
    """
    return records.writeStream.format("kafka").options(
        **_PRODUCER | spark_options(kafka), checkpointLocation=checkpoint
    )
