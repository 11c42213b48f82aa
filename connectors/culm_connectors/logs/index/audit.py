"""Whether the records of an index agree: the row of every log with its entries and its sync range.

Structure (pages, lengths) is looked at when the file is opened; this looks at what the records say, and at
single records as they are read: an entry's hash names its place, and the entry names its operation's hash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.errors import IndexDamaged
from culm_connectors.logs.index.layout import LogRow
from culm_models.bamboo import entry_hash
from culm_models.bamboo.hashes import HASH_SIZE, hash_bytes

_SEQ_NUM_AT = layout.LOG_KEY_SIZE
# The last bytes of an entry: the hash of its payload, then the signature.
_PAYLOAD_HASH = slice(-64 - HASH_SIZE, -64)


def checked_entry(
    transaction: Any, databases: Mapping[bytes, Any], key: bytes, value: bytes
) -> tuple[bytes, tuple[bytes, bytes]]:
    """The hash of a stored entry, and the entry with its operation; some 3 µs. Raises IndexDamaged."""
    try:
        entry, operation = layout.unpack_entry(value)
    except ValueError as error:
        raise IndexDamaged(f"entry {key.hex()}: {error}") from error
    own_hash = entry_hash(entry)
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


def contradictory_logs(
    transaction: Any, databases: Mapping[bytes, Any]
) -> Iterator[tuple[bytes, int | None]]:
    """(40-byte key, schema number where one is named) of every log whose records contradict each other."""
    held = _runs(transaction, databases)
    found = next(held, None)
    with transaction.cursor(db=databases[b"logs"]) as rows:
        for key, value in rows:
            while found is not None and found[0] < key:
                yield found[0], None  # entries without a row
                found = next(held, None)
            height = 0
            if found is not None and found[0] == key:
                height = found[1]
                found = next(held, None)
            try:
                row = layout.unpack_row(value)
            except (ValueError, struct.error):
                yield key, None
                continue
            place = layout.U32.pack(row.schema_number) + key
            told = transaction.get(place, db=databases[b"sync_range"])
            if row.height != height or told != layout.U64.pack(row.height):
                yield key, row.schema_number
    while found is not None:
        yield found[0], None
        found = next(held, None)
    with transaction.cursor(db=databases[b"sync_range"]) as ranges:
        for place in ranges.iternext(values=False):
            key = place[layout.U32.size :]
            if transaction.get(key, db=databases[b"logs"]) is None:
                yield key, layout.U32.unpack_from(place)[0]


def _runs(transaction: Any, databases: Mapping[bytes, Any]) -> Iterator[tuple[bytes, int]]:
    """(log key, number of entries without a gap from 1) of every log; 0 where there is a gap."""
    log: bytes | None = None
    height = 0
    with transaction.cursor(db=databases[b"entries"]) as entries:
        for key in entries.iternext(values=False):
            seq_num = int.from_bytes(key[_SEQ_NUM_AT:], "big")
            if key[:_SEQ_NUM_AT] != log:
                if log is not None:
                    yield log, height
                log, height = key[:_SEQ_NUM_AT], 1 if seq_num == 1 else 0
            else:
                height = height + 1 if height and seq_num == height + 1 else 0
    if log is not None:
        yield log, height
