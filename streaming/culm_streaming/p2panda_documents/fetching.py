"""Reads operations of earlier micro-batches in `logs` again, for the values of fields that they set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from culm_models.p2panda.operations.operation import decode_operation
from culm_streaming.errors import StateMissingError
from culm_streaming.kafka_io.fetching import RecordFetcher, RecordPlace
from culm_streaming.p2panda_documents.packing import encoded_fields
from culm_topics.logs.records import LogRecord
from culm_topics.readers.at_offsets import Absent


@dataclass(frozen=True, slots=True)
class FieldsFetcher:
    """Returns the fields of operations by their places in `logs`, as `encoded_fields` does."""

    records: RecordFetcher
    max_value_bytes: int

    def __call__(self, places: Iterable[RecordPlace]) -> Mapping[RecordPlace, Mapping[str, bytes]]:
        """Return the fields at these places.

        Raises `StateMissingError` for a record that is gone, and the errors of `RecordFetcher`.
        """
        found: dict[RecordPlace, Mapping[str, bytes]] = {}
        for message in self.records(places):
            if isinstance(message, Absent):
                raise StateMissingError(f"an operation of a document is no longer in logs: {message}")
            operation = decode_operation(LogRecord.decode(message.value).operation)
            found[message.partition, message.offset] = encoded_fields(operation, self.max_value_bytes) or {}
        return found
