"""The rows of logs and parts of logs as readers see them; from any thread.

Single records are checked as they are read: an entry's hash names its place, and the entry names its
operation's hash; a row names its newest entry. The last rows stay in memory; parts are read in pieces of
bounded size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from culm_connectors.local_store.lmdb_file import LmdbFile
from culm_connectors.logs.index import layout
from culm_connectors.logs.index.errors import IndexDamaged
from culm_connectors.logs.index.layout import LogRow
from culm_models.bamboo.hashes import HASH_SIZE, hash_bytes

# The last bytes of an entry: the hash of its payload, then the signature.
_PAYLOAD_HASH = slice(-64 - HASH_SIZE, -64)

Pair = tuple[bytes, bytes]
Range = tuple[bytes, int, int, int]
"""Public key, log id, first and last sequence number."""


def checked_entry(
    transaction: Any, databases: Mapping[bytes, Any], key: bytes, value: bytes
) -> tuple[bytes, tuple[bytes, bytes]]:
    """The hash of a stored entry, and the entry with its operation; some 3 µs. Raises IndexDamaged."""
    try:
        entry, operation = layout.unpack_entry(value)
    except ValueError as error:
        raise IndexDamaged(f"entry {key.hex()}: {error}") from error
    own_hash = hash_bytes(entry)
    place = transaction.get(layout.short_hash(own_hash), db=databases[b"operations"])
    if place is None or place[: len(key)] != key or entry[_PAYLOAD_HASH] != hash_bytes(operation):
        raise IndexDamaged(f"entry {key.hex()} is not what was stored there")
    return own_hash, (entry, operation)


def checked_row(transaction: Any, databases: Mapping[bytes, Any], key: bytes, value: bytes) -> LogRow:
    """A log's row, if its newest entry is where the row says. Raises IndexDamaged."""
    try:
        row = layout.unpack_row(value)
    except ValueError as error:
        raise IndexDamaged(f"log {key.hex()}: {error}") from error
    place = transaction.get(layout.short_hash(row.head_hash), db=databases[b"operations"])
    if place is None or place[: len(key) + layout.U64.size] != key + layout.U64.pack(row.height):
        raise IndexDamaged(f"log {key.hex()}: its newest entry is not where its row says")
    return row


def read_chunk(environment: LmdbFile, part: Range, max_bytes: int) -> list[Pair]:
    """At least one entry (if held) and at most about `max_bytes` of a part of a log.

    Raises IndexDamaged where an entry is not what was stored.
    """
    public_key, log_id, first_seq_num, last_seq_num = part
    first = layout.entry_key(public_key, log_id, first_seq_num)
    last = layout.entry_key(public_key, log_id, last_seq_num)
    databases = environment.databases
    found: list[Pair] = []
    taken = 0
    with environment.read() as transaction, transaction.cursor(db=databases[b"entries"]) as cursor:
        if not cursor.set_key(first):
            return found
        for key, value in cursor.iternext():
            if key > last:
                break
            found.append(checked_entry(transaction, databases, key, value)[1])
            taken += len(value)
            if taken >= max_bytes:
                break
    return found


def read_ranges(environment: LmdbFile, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
    """Several parts of logs in one go, until about `max_bytes` are read.

    One list a range that was read, empty where nothing of it is held; the last may be a beginning.
    """
    found: list[list[Pair]] = []
    taken = 0
    for part in ranges:
        chunk = read_chunk(environment, part, max_bytes - taken)
        found.append(chunk)
        taken += sum(len(entry) + len(operation) for entry, operation in chunk)
        _, _, first_seq_num, last_seq_num = part
        is_whole = len(chunk) > last_seq_num - first_seq_num
        if taken >= max_bytes or (chunk and not is_whole):
            break
    return found


_MAX_ROWS = 65_536


class RowCache:
    """Rows by log (40-byte key); the `_MAX_ROWS` that were read or written last stay in memory."""

    def __init__(self, environment: LmdbFile) -> None:
        self._environment = environment
        self._rows: dict[bytes, LogRow | None] = {}

    def get(self, key: bytes) -> LogRow | None:
        """The row of a log, None for an unknown one. Raises IndexDamaged."""
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
        """Of each log its schema's number and whether its first entry creates its document; None if unknown.

        Some 3 µs each; memory keeps none of them. Raises IndexDamaged.
        """
        databases = self._environment.databases
        found: list[tuple[int, bool] | None] = []
        with self._environment.read() as transaction:
            for key in keys:
                row = self._rows.get(key)
                if row is None and (value := transaction.get(key, db=databases[b"logs"])) is not None:
                    row = checked_row(transaction, databases, key, value)
                if row is None:
                    found.append(None)
                    continue
                place = None
                if row.document_id is not None:
                    place = transaction.get(layout.short_hash(row.document_id), db=databases[b"operations"])
                first = key + layout.U64.pack(1)
                found.append((row.schema_number, place is not None and place.startswith(first)))
        return found

    def adopt(self, rows: Mapping[bytes, LogRow | None]) -> None:
        """These were committed; None for a log that was removed."""
        for key in rows:
            self._rows.pop(key, None)
        self._rows.update(rows)
        self._bound()

    def _bound(self) -> None:
        while len(self._rows) > _MAX_ROWS:
            del self._rows[next(iter(self._rows))]
