"""The job `notes`: the number of a note is its offset, so a batch that runs again says the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import rejection
from tests.streaming.sixth_protocol.topics import NoteRecord, NumberedNoteRecord


@dataclass(frozen=True, slots=True)
class NotesJobSettings:
    """How much one micro-batch reads."""

    max_offsets_per_trigger: int = 10_000


def notes_query(session: SparkSession, kafka: KafkaSettings, settings: NotesJobSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink."""
    numbered, rejected, input_topic = map(kafka.topic, ("notes.numbered", "rejected", "notes.said"))

    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
            for record in batch.to_pylist():
                try:
                    note = NumberedNoteRecord(record["offset"], NoteRecord.decode(record["value"]).text)
                    rows.append((numbered, record["key"], note.encode()))
                except RecordError as error:
                    source = (input_topic, 0, record["offset"])
                    value = rejection(error.code, str(error), entry=record["value"], source=source).encode()
                    rows.append((rejected, b"", value))
            columns = zip(*rows, strict=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(column) for column in columns], ["topic", "key", "value"]
            )

    notes = kafka_source(
        session, kafka, ("notes.said",), max_offsets_per_trigger=settings.max_offsets_per_trigger
    )
    return notes.mapInArrow(number, "topic string, key binary, value binary")


JOB = StreamingJob(notes_query, NotesJobSettings)
