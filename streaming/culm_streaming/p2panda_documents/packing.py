"""Turns records of `logs` into operations by log: the stateless part of the job `documents`.

Bare logs have no operations and are left out, as is an entry whose operation is not inline. Entries were
checked before they were written to `logs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from culm_models.bamboo.hashes import YASMF
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import Operation, decode_operation
from culm_models.p2panda.operations.values import encode_value
from culm_streaming.p2panda_documents.errors import FieldNameError
from culm_streaming.p2panda_documents.rows import (
    ArrivedRows,
    LogRows,
    OperationRow,
    RejectedRow,
    pack_operations,
    short_id,
)
from culm_topics.errors import RecordError
from culm_topics.logs.records import LogRecord
from culm_topics.records import LOG_KEY_SIZE, reject_malformed

MAX_NAME_BYTES: Final = 256
"""Largest size of a field's name: a schema allows 64 characters."""

Record = tuple[bytes | None, bytes | None, int, int]
"""(key, value, partition, offset)."""


def pack_logs(records: Iterable[Record], max_value_bytes: int, topic: str) -> ArrivedRows:
    """Return the operations of records by log; `topic` is their topic's full name."""
    arrived = ArrivedRows()
    logs: dict[tuple[bytes, str], _LogBatch] = {}
    for key, value, partition, offset in records:
        try:
            record = LogRecord.decode(value)
            if not record.schema_id or not record.operation:
                continue
            if key is None or len(key) != LOG_KEY_SIZE:
                raise RecordError(f"logs: the key is no log key of {LOG_KEY_SIZE} bytes")
            if not YASMF.has_form(record.entry_hash):
                raise RecordError("logs: the hash of an operation's entry is not a YASMF hash")
            operation = decode_operation(record.operation)
            fields = encoded_fields(operation, max_value_bytes)
        except CulmError as error:
            source = (topic, partition, offset)
            arrived.refused.append(RejectedRow(*reject_malformed(error, value, source, key=key)))
            continue
        batch = logs.get((key, operation.schema_id))
        if batch is None:
            batch = logs[key, operation.schema_id] = _LogBatch()
        previous = operation.previous or ()
        if record.seq_num == 1:
            batch.starts_with, batch.creates = previous[0] if previous else record.entry_hash, not previous
        batch.operations.append(OperationRow(record.entry_hash, previous, fields, partition, offset))
    arrived.logs = [batch.rows(log, schema_id) for (log, schema_id), batch in logs.items()]
    return arrived


def encoded_fields(operation: Operation, max_value_bytes: int) -> dict[str, bytes] | None:
    """Return the CBOR of an operation's values; longer ones are empty. None if it deletes the document.

    Raises `FieldNameError`.
    """
    if operation.fields is None:
        return None
    fields: dict[str, bytes] = {}
    for name, value in operation.fields.items():
        if len(name) > MAX_NAME_BYTES // 4 and len(name.encode()) > MAX_NAME_BYTES:
            raise FieldNameError(f"the name of a field has more than {MAX_NAME_BYTES} bytes")
        encoded = encode_value(value)
        fields[name] = encoded if len(encoded) <= max_value_bytes else b""
    return fields


class _LogBatch:
    """The operations of one log and schema in a batch."""

    __slots__ = ("creates", "operations", "starts_with")

    def __init__(self) -> None:
        self.operations: list[OperationRow] = []
        self.starts_with = b""
        self.creates = False

    def rows(self, log: bytes, schema_id: str) -> LogRows:
        operations = self.operations
        short_ids = b"".join([short_id(operation.operation_id) for operation in operations])
        return LogRows(log, schema_id, self.starts_with, self.creates, short_ids, pack_operations(operations))
