"""Reads operations of earlier micro-batches in `logs` again, for the values of fields that they set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from culm_models.p2panda.operations.operation import decode_operation
from culm_streaming.errors import StateMissingError
from culm_streaming.kafka_io.fetching import RecordFetcher, RecordPlace
from culm_streaming.p2panda_documents.packing import encoded_fields
from culm_topics.logs.records import LogRecord
from culm_topics.readers.at_offsets import Absent


@dataclass(frozen=True, slots=True)
class FieldsFetcher:
    """Yields the fields of operations by their places in `logs`, as `encoded_fields` does."""

    records: RecordFetcher
    max_value_bytes: int

    def __call__(self, places: Iterable[RecordPlace]) -> Iterator[tuple[RecordPlace, Mapping[str, bytes]]]:
        """Yield the fields at these places; only those of one operation are in memory at a time.

        Raises `StateMissingError` for a record that is gone, and the errors of `RecordFetcher`.
        """
        for message in self.records(places):
            if isinstance(message, Absent):
                raise StateMissingError(f"an operation of a document is no longer in logs: {message}")
            operation = decode_operation(LogRecord.decode(message.value).operation)
            place = message.partition, message.offset
            yield place, encoded_fields(operation, self.max_value_bytes) or {}
