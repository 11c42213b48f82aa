"""Record layout of the index in lmdb. Big-endian keys sort in the order of the sync range.

| database | key | value |
|---|---|---|
| entries | public key (32) ‖ log id (8) ‖ sequence number (8) | entry length (2) ‖ entry ‖ operation |
| logs | public key ‖ log id | one packed `LogRow` |
| sync_range | schema number (4) ‖ public key ‖ log id | height (8): the sorted sync range of a schema |
| operations | operation id (32, without its prefix) | log (40) ‖ sequence number (8) ‖ revision (8) |
| documents | public key ‖ document id (32) | log id (8): the one log an author keeps of a document |
| deletes | document id (32) ‖ log (40) | sequence number (8) of the log's first delete |
| waiting | operation id (32) or log (40) ‖ log (40) | empty: the second's document waits for the first |
| schemas | schema number (4) | schema id, UTF-8 |
| usage | 0 (1) ‖ public key, or 1 (1) ‖ peer id | bytes (8) that the author, or the peer, takes |
| brought | log (40) ‖ sequence number (8) | last sequence number (8) ‖ peer id: the sender of this run |
| meta | a name | format number, identity, Kafka offsets |

Single records are checked as they are read: an entry's hash leads to its place, the entry contains its
operation's hash, and a row contains the hash of its newest entry. The latest rows stay in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from culm_connectors.local_store.lmdb_file import LmdbFile
from culm_connectors.logs.index.errors import IndexDamaged
from culm_models.bamboo.hashes import HASH_SIZE, PREFIX, hash_bytes

FORMAT = 3
DATABASES = (
    b"entries",
    b"logs",
    b"sync_range",
    b"operations",
    b"documents",
    b"deletes",
    b"waiting",
    b"schemas",
    b"usage",
    b"brought",
    b"meta",
)

MAX_SEQ_NUM = 2**64 - 1
U64 = struct.Struct(">Q")
U32 = struct.Struct(">I")
U16 = struct.Struct(">H")
_PLACE = struct.Struct(">32sQQQ")
_ROW = struct.Struct(">QIB32s32sQ")
END_OF_LOG = 1
_HAS_DOCUMENT = 2
_HASH_PREFIX: bytes = PREFIX
_PREFIX_SIZE = len(PREFIX)
_NO_HASH = bytes(32)


class LogRow(NamedTuple):
    """Row of a log: its properties, available without reading its entries."""

    height: int
    schema_number: int
    end_of_log: bool
    head_hash: bytes
    document_id: bytes | None
    first_delete: int
    """Sequence number of the first operation that deletes, 0 if there is no such operation."""


class Place(NamedTuple):
    """Place of an operation: its log, its sequence number, and the revision of the index that added it."""

    log: tuple[bytes, int]
    seq_num: int
    revision: int


def pack_place(key: bytes, seq_num: int, revision: int) -> bytes:
    """Encode a `Place`: the 40-byte key of the log, the sequence number, the revision."""
    return key + U64.pack(seq_num) + U64.pack(revision)


def unpack_place(value: bytes) -> Place:
    """Decode a `Place`.

    Raises `ValueError` if the value is malformed.
    """
    if len(value) != _PLACE.size:
        raise ValueError(f"place of {len(value)} bytes")
    public_key, log_id, seq_num, revision = _PLACE.unpack(value)
    return Place((public_key, log_id), seq_num, revision)


def operation_key(operation_id: bytes) -> bytes | None:
    """Returns the 32-byte key of an operation, or None for an id that no operation can have."""
    return short_hash(operation_id) if operation_id.startswith(_HASH_PREFIX) else None


def pack_entry(entry: bytes, operation: bytes) -> bytes:
    """Encode an entry and its operation as one value."""
    return U16.pack(len(entry)) + entry + operation


def unpack_entry(value: bytes) -> tuple[bytes, bytes]:
    """Decode a value into entry and operation.

    Raises `ValueError` if the value is malformed.
    """
    if len(value) < U16.size:
        raise ValueError("entry value is shorter than its length field")
    end = U16.size + U16.unpack_from(value)[0]
    if end > len(value):
        raise ValueError("entry value is shorter than the entry it announces")
    return value[U16.size : end], value[end:]


def stored_size(value: bytes) -> int:
    """Returns the size of the entry and operation in a value, in bytes."""
    return len(value) - U16.size


def pack_row(row: LogRow) -> bytes:
    """Encode a `LogRow` in its fixed 85 bytes."""
    flags = (END_OF_LOG if row.end_of_log else 0) | (_HAS_DOCUMENT if row.document_id else 0)
    document = short_hash(row.document_id) if row.document_id else _NO_HASH
    head = short_hash(row.head_hash)
    return _ROW.pack(row.height, row.schema_number, flags, head, document, row.first_delete)


def unpack_row(value: bytes) -> LogRow:
    """Decode a `LogRow`.

    Raises `ValueError` if the value is malformed.
    """
    if len(value) != _ROW.size:
        raise ValueError(f"log row of {len(value)} bytes")
    height, schema_number, flags, head, document, first_delete = _ROW.unpack(value)
    document_id = long_hash(document) if flags & _HAS_DOCUMENT else None
    ended = bool(flags & END_OF_LOG)
    return LogRow(height, schema_number, ended, long_hash(head), document_id, first_delete)


def short_hash(full: bytes) -> bytes:
    """Shorten a 34-byte identifier by its prefix of two bytes, which never differs."""
    return full[_PREFIX_SIZE:]


def long_hash(short: bytes) -> bytes:
    """Restore the 34-byte identifier from its 32 bytes."""
    return _HASH_PREFIX + short


def offset_key(topic: str, partition: int) -> bytes:
    """Returns the key in `meta` of the next offset of a partition."""
    return b"offset:" + topic.encode() + b":" + U32.pack(partition)


def split_offset_key(key: bytes) -> tuple[str, int]:
    """Split an offset's key into topic and partition."""
    return key[len(b"offset:") : -U32.size - 1].decode(), U32.unpack(key[-U32.size :])[0]


# The last bytes of an entry: the hash of its payload, then the signature.
_PAYLOAD_HASH = slice(-64 - HASH_SIZE, -64)

Pair = tuple[bytes, bytes]
Range = tuple[bytes, int, int, int]
"""Public key, log id, first and last sequence number."""


def checked_entry(
    transaction: Any, databases: Mapping[bytes, Any], key: bytes, value: bytes
) -> tuple[bytes, tuple[bytes, bytes]]:
    """Returns the hash of a stored entry, and entry and operation; takes some 3 µs. Raises `IndexDamaged`."""
    try:
        entry, operation = unpack_entry(value)
    except ValueError as error:
        raise IndexDamaged(f"entry {key.hex()}: {error}") from error
    own_hash = hash_bytes(entry)
    stored_at = transaction.get(short_hash(own_hash), db=databases[b"operations"])
    if stored_at is None or stored_at[: len(key)] != key or entry[_PAYLOAD_HASH] != hash_bytes(operation):
        raise IndexDamaged(f"entry {key.hex()} is not what was stored there")
    return own_hash, (entry, operation)


def checked_row(transaction: Any, databases: Mapping[bytes, Any], key: bytes, value: bytes) -> LogRow:
    """Decode a log's row.

    Raises `IndexDamaged` if it is malformed or its newest entry is not in its place.
    """
    try:
        row = unpack_row(value)
    except ValueError as error:
        raise IndexDamaged(f"log {key.hex()}: {error}") from error
    head_place = transaction.get(short_hash(row.head_hash), db=databases[b"operations"])
    if head_place is None or head_place[: len(key) + U64.size] != key + U64.pack(row.height):
        raise IndexDamaged(f"log {key.hex()}: its newest entry is not at the place that its row names")
    return row


_MAX_ROWS = 65_536


class RowCache:
    """Cache of rows by log (40-byte key), with the `_MAX_ROWS` rows that were loaded or written last."""

    def __init__(self, environment: LmdbFile) -> None:
        self._environment = environment
        self._rows: dict[bytes, LogRow | None] = {}

    def get(self, key: bytes) -> LogRow | None:
        """Returns the row of a log, None if the log is unknown. Raises `IndexDamaged`."""
        if key in self._rows:
            return self._rows[key]
        databases = self._environment.databases
        with self._environment.read() as transaction:
            value = transaction.get(key, db=databases[b"logs"])
            row = None if value is None else checked_row(transaction, databases, key, value)
        if row is not None:
            self._rows[key] = row
            self._bound()
        return row

    def kinds(self, keys: Sequence[bytes]) -> list[tuple[int, bool] | None]:
        """Returns (schema number, whether the first entry creates the document) of each log; None if unknown.

        Takes some 3 µs each; the rows are not cached. Raises `IndexDamaged`.
        """
        databases = self._environment.databases
        log_kinds: list[tuple[int, bool] | None] = []
        with self._environment.read() as transaction:
            for key in keys:
                row = self._rows.get(key)
                if row is None and (value := transaction.get(key, db=databases[b"logs"])) is not None:
                    row = checked_row(transaction, databases, key, value)
                if row is None:
                    log_kinds.append(None)
                    continue
                create_place = None
                if row.document_id is not None:
                    create_place = transaction.get(short_hash(row.document_id), db=databases[b"operations"])
                first = key + U64.pack(1)
                log_kinds.append(
                    (row.schema_number, create_place is not None and create_place.startswith(first))
                )
        return log_kinds

    def adopt(self, rows: Mapping[bytes, LogRow | None]) -> None:
        """Adopt committed rows; None stands for a removed log."""
        for key in rows:
            self._rows.pop(key, None)
        self._rows.update(rows)
        self._bound()

    def _bound(self) -> None:
        while len(self._rows) > _MAX_ROWS:
            del self._rows[next(iter(self._rows))]
