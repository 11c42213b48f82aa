"""Audit of an index: the row of every log must agree with its entries and its sync range.

Structure (pages, lengths) is checked when the file is opened, and single records as they are read
(`reading`); the audit compares records with each other. Logs that contradict themselves are removed
whole, whatever state they are in, to be read from `logs` again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.commit import Commit, UsageWriter
from culm_models.bamboo import hash_bytes
from culm_topics.records import LOG_KEY_SIZE


def contradictory_logs(
    transaction: Any, databases: Mapping[bytes, Any]
) -> Iterator[tuple[bytes, int | None]]:
    """Yield (40-byte key, schema number or None) of every log whose records contradict each other."""
    runs = _runs(transaction, databases)
    run = next(runs, None)
    with transaction.cursor(db=databases[b"logs"]) as rows:
        for key, value in rows:
            while run is not None and run[0] < key:
                yield run[0], None  # entries without a row
                run = next(runs, None)
            height = 0
            if run is not None and run[0] == key:
                height = run[1]
                run = next(runs, None)
            try:
                row = layout.unpack_row(value)
            except (ValueError, struct.error):
                yield key, None
                continue
            range_key = layout.U32.pack(row.schema_number) + key
            range_value = transaction.get(range_key, db=databases[b"sync_range"])
            if row.height != height or range_value != layout.U64.pack(row.height):
                yield key, row.schema_number
    while run is not None:
        yield run[0], None
        run = next(runs, None)
    with transaction.cursor(db=databases[b"sync_range"]) as ranges:
        for range_key in ranges.iternext(values=False):
            key = range_key[layout.U32.size :]
            if transaction.get(key, db=databases[b"logs"]) is None:
                yield key, layout.U32.unpack_from(range_key)[0]


def _runs(transaction: Any, databases: Mapping[bytes, Any]) -> Iterator[tuple[bytes, int]]:
    """Yield (log key, number of entries) of every log; the number is 0 if the entries have a gap."""
    log: bytes | None = None
    height = 0
    with transaction.cursor(db=databases[b"entries"]) as entries:
        for key in entries.iternext(values=False):
            seq_num = int.from_bytes(key[LOG_KEY_SIZE:], "big")
            if key[:LOG_KEY_SIZE] != log:
                if log is not None:
                    yield log, height
                log, height = key[:LOG_KEY_SIZE], 1 if seq_num == 1 else 0
            else:
                height = height + 1 if height and seq_num == height + 1 else 0
    if log is not None:
        yield log, height


def forget_logs(transaction: Any, databases: Mapping[bytes, Any], keys: Iterable[bytes]) -> Commit:
    """Remove all records of these logs (40-byte keys) in an open write transaction."""
    with transaction.cursor(db=databases[b"schemas"]) as cursor:
        numbers = [number for number, _ in cursor]
    removed: dict[bytes, None] = {}
    usage = UsageWriter(transaction, databases)
    for key in keys:
        usage.removed(key, _forget_entries(transaction, databases, key))
        _forget_document(transaction, databases, key)
        transaction.delete(key, db=databases[b"logs"])
        # Not only under the schema that the row names: the row may be wrong.
        for number in numbers:
            transaction.delete(number + key, db=databases[b"sync_range"])
        removed[key] = None
    usage.finish()
    return Commit((), (), (), (), removed, {})


def _forget_entries(transaction: Any, databases: Mapping[bytes, Any], key: bytes) -> dict[int, int]:
    """Remove all entries of a log; returns their sizes in bytes, by sequence number."""
    sizes: dict[int, int] = {}
    with transaction.cursor(db=databases[b"entries"]) as cursor:
        has_entry = cursor.set_range(key)
        while has_entry and cursor.key().startswith(key):
            seq_num = layout.U64.unpack(cursor.key()[LOG_KEY_SIZE:])[0]
            sizes[seq_num] = layout.stored_size(cursor.value())
            try:
                entry, _ = layout.unpack_entry(cursor.value())
            except ValueError:
                entry = b""
            transaction.delete(layout.short_hash(hash_bytes(entry)), db=databases[b"operations"])
            # Deleting moves the cursor to the next record.
            has_entry = cursor.delete()
    return sizes


def _forget_document(transaction: Any, databases: Mapping[bytes, Any], key: bytes) -> None:
    value = transaction.get(key, db=databases[b"logs"])
    if value is None:
        return
    try:
        row = layout.unpack_row(value)
    except ValueError:
        return
    if row.document_id is not None:
        document_key = key[:32] + layout.short_hash(row.document_id)
        if transaction.get(document_key, db=databases[b"documents"]) == key[32:]:
            transaction.delete(document_key, db=databases[b"documents"])
        transaction.delete(layout.short_hash(row.document_id) + key, db=databases[b"deletes"])
