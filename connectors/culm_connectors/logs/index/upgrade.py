"""Checks the format of an index, and upgrades an index of an earlier format in place.

Format 1 knew the document of a log only if the operation that its first entry follows was held before it, and
did not store the places of operations. Formats 1 and 2 did not count bytes, and the senders of their entries
are unknown. All data that can be derived from the entries is derived again, log by log. The format's number
changes last, so an interrupted upgrade begins again.
"""

from __future__ import annotations

import itertools
import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from culm_connectors.local_store.lmdb_file import LmdbFile
from culm_connectors.logs.index import layout
from culm_connectors.logs.index.commit import UsageWriter
from culm_connectors.logs.index.documents import DocumentWriter, ReadFacts
from culm_connectors.logs.index.errors import IndexDamaged
from culm_connectors.logs.index.layout import LogRow
from culm_models.bamboo import hash_bytes
from culm_models.errors import CulmError
from culm_topics.records import LOG_KEY_SIZE

logger = logging.getLogger(__name__)

_EARLIER_FORMATS = {layout.U32.pack(number): number for number in (1, 2)}
_EARLIER_ROW = struct.Struct(">QIB32s32s")
_AT_ONCE = 20_000
_BEHIND_ALL = b"\xff" * 49


def ensure_format(environment: LmdbFile, read_facts: ReadFacts) -> None:
    """Write the format to an empty index; upgrade an index of an earlier format.

    Raises `IndexDamaged` if the format is unknown or a record is malformed.
    """
    written = layout.U32.pack(layout.FORMAT)
    meta = environment.databases[b"meta"]
    with environment.read() as transaction:
        stored = transaction.get(b"format", db=meta)
        is_empty = transaction.stat(environment.databases[b"entries"])["entries"] == 0
    if stored is None and is_empty:
        environment.write(lambda writing: writing.put(b"format", written, db=meta))
    elif stored is not None and (number := _EARLIER_FORMATS.get(bytes(stored))):
        try:
            _upgrade(environment, number, read_facts)
        except (ValueError, struct.error, CulmError) as error:
            raise IndexDamaged(f"{environment.folder}: malformed record: {error}") from error
    elif stored != written:
        raise IndexDamaged(f"{environment.folder} has format {stored!r}, this version reads {written!r}")


def _upgrade(environment: LmdbFile, former: int, read_facts: ReadFacts) -> None:
    logger.info("upgrading %s: this takes about ten seconds per million entries", environment.folder)
    databases = environment.databases

    derived = [b"usage", b"brought"]
    steps: list[Callable[[LmdbFile, bytes, Any], bytes | None]] = [_usage_from]
    if former == 1:
        derived += (b"operations", b"documents", b"deletes", b"waiting")
        steps += (_rows_from, partial(_documents_from, read_facts))

    def derived_anew(transaction: Any) -> None:
        for name in derived:
            transaction.drop(databases[name], delete=False)

    def finished(transaction: Any) -> None:
        transaction.put(b"format", layout.U32.pack(layout.FORMAT), db=databases[b"meta"])

    environment.write(derived_anew)
    for step in steps:
        position: bytes | None = b""
        while position is not None:
            position = environment.write(partial(step, environment, position))
    environment.write(finished)


def _rows_from(environment: LmdbFile, position: bytes, transaction: Any) -> bytes | None:
    """Rewrite rows in the new layout, without documents. Returns the next position, None at the end."""
    logs = environment.databases[b"logs"]
    records = _from(transaction, logs, position)
    for key, value in records:
        if len(value) == _EARLIER_ROW.size:
            height, schema_number, flags, head, _ = _EARLIER_ROW.unpack(value)
            ended = bool(flags & layout.END_OF_LOG)
            row = LogRow(height, schema_number, ended, layout.long_hash(head), None, 0)
        else:
            row = layout.unpack_row(value)._replace(document_id=None, first_delete=0)
        transaction.put(key, layout.pack_row(row), db=logs)
    return records[-1][0] + b"\x00" if len(records) == _AT_ONCE else None


def _documents_from(
    read_facts: ReadFacts, environment: LmdbFile, position: bytes, transaction: Any
) -> bytes | None:
    """Derive operations, deletes and documents of the logs, as if their entries were written now."""
    databases = environment.databases
    whole: dict[bytes, LogRow] = {}
    rows: dict[bytes, LogRow | None] = {}
    documents = DocumentWriter(transaction, databases, rows, read_facts)
    count, last = 0, position
    with transaction.cursor(db=databases[b"entries"]) as cursor:
        entries = cursor.iternext() if cursor.set_range(position) else ()
        for last, value in itertools.islice(entries, _AT_ONCE):
            count += 1
            key, seq_num = last[:LOG_KEY_SIZE], layout.U64.unpack(last[LOG_KEY_SIZE:])[0]
            row = documents.row(key)
            if row is None:
                raise ValueError(f"entries of log {key.hex()} have no row")
            entry, operation = layout.unpack_entry(value)
            whole.setdefault(key, row)
            grown = row._replace(height=seq_num, head_hash=hash_bytes(entry))
            documents.append(key, grown, read_facts(operation))
    unsettled = documents.settle_what_is_due()
    for key, changed in rows.items():
        assert changed is not None, "no log is removed here"
        end = whole.get(key, changed)
        row = changed._replace(height=end.height, head_hash=end.head_hash)
        transaction.put(key, layout.pack_row(row), db=databases[b"logs"])
    if count == _AT_ONCE:
        return last + b"\x00"
    return _BEHIND_ALL if unsettled else None


def _usage_from(environment: LmdbFile, position: bytes, transaction: Any) -> bytes | None:
    """Count the bytes of every author."""
    usage = UsageWriter(transaction, environment.databases)
    records = _from(transaction, environment.databases[b"entries"], position)
    for key, value in records:
        seq_num = layout.U64.unpack(key[LOG_KEY_SIZE:])[0]
        usage.added(key[:LOG_KEY_SIZE], seq_num, layout.stored_size(value), None)
    usage.finish()
    return records[-1][0] + b"\x00" if len(records) == _AT_ONCE else None


def _from(transaction: Any, database: object, position: bytes) -> list[tuple[bytes, bytes]]:
    with transaction.cursor(db=database) as cursor:
        return list(itertools.islice(cursor.iternext(), _AT_ONCE)) if cursor.set_range(position) else []
