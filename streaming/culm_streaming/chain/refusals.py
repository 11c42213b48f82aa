"""What is refused, as records of `rejected`."""

from culm_models.errors import CulmError
from culm_streaming.chain.rows import Array, split_source
from culm_topics.records import LogRecord, RejectedRecord


def rejected_value(
    head: Array, value: bytes, error: CulmError, entries_topic: str, *, first: bytes | None = None
) -> bytes:
    """The record for one refused row: `head` of `HEAD`, `value` as it would have stood on `logs`."""
    record = LogRecord.decode(value)
    partition, offset = split_source(int(head["source"]))
    return RejectedRecord(
        code=error.code,
        detail=str(error),
        entry=record.entry,
        operation=record.operation,
        brought_by=bytes(head["brought_by"].tobytes()),
        source=(entries_topic, partition, offset),
        seq_num=int(head["seq_num"]),
        first=first,
    ).encode()
