"""Records of `logs` become operations by log; malformed ones are on `rejected`, each by itself."""

from __future__ import annotations

import pytest

from culm_models.bamboo import hash_bytes
from culm_models.p2panda.operations.operation import encode_operation
from culm_streaming.p2panda_documents.packing import MAX_NAME_BYTES, pack_logs
from culm_streaming.p2panda_documents.rows import unpack_operations
from culm_topics.logs.records import LogRecord
from culm_topics.records import RejectedRecord, log_key
from tests.support.p2panda.document_histories import SCHEMA

KEY = log_key(bytes(32), 7)
CREATE = encode_operation("create", SCHEMA, fields={"name": "inn"})
LONG_NAME = encode_operation("create", SCHEMA, fields={"x" * (MAX_NAME_BYTES + 1): 1})


def record(operation: bytes = CREATE, entry_hash: bytes = hash_bytes(b"1"), schema_id: str = SCHEMA) -> bytes:
    return LogRecord(1, b"entry", operation, entry_hash, schema_id).encode()


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (KEY, None, "topics.record"),
        (KEY, b"", "topics.record"),
        (KEY, record()[:-1], "topics.record"),
        (None, record(), "topics.record"),
        (KEY + b"1", record(), "topics.record"),
        (KEY, record(entry_hash=bytes(66)), "topics.record"),
        (KEY, record(entry_hash=b"\1" * 34), "topics.record"),
        (KEY, record(b"\x80"), "p2panda.operation.item_count"),
        (KEY, record(b"\x9f" * 10_000), "p2panda.operation.malformed"),
        (KEY, record(LONG_NAME), "documents.field_name"),
    ],
    ids=("tombstone", "empty", "cut", "no key", "long key", "yamf", "no hash", "short", "deep", "name"),
)
def test_a_malformed_record_is_refused_alone(key: bytes | None, value: bytes | None, code: str) -> None:
    arrived = pack_logs([(key, value, 1, 5), (KEY, record(), 1, 6)], 1_000, "culm.logs")
    (refused,) = arrived.refused
    rejected = RejectedRecord.decode(refused.value)
    assert (rejected.code, rejected.source) == (code, ("culm.logs", 1, 5))
    (log,) = arrived.logs
    assert [(row.operation_id, row.offset) for row in unpack_operations(log.operations)] == [
        (hash_bytes(b"1"), 6)
    ]


@pytest.mark.parametrize("value", [record(schema_id=""), record(b"")], ids=("bare", "not inline"))
def test_a_record_without_an_operation_is_left_out(value: bytes) -> None:
    arrived = pack_logs([(KEY, value, 1, 5)], 1_000, "culm.logs")
    assert not arrived.logs and not arrived.refused
