"""Taking whole logs out of the index, whatever state they are in, to be read from `logs` anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.commit import Commit
from culm_connectors.logs.index.usage import UsageWriter
from culm_models.bamboo import entry_hash


def forget_logs(transaction: Any, databases: Mapping[bytes, Any], keys: Iterable[bytes]) -> Commit:
    """Remove everything that is kept of these logs (40-byte keys) in an open write transaction."""
    with transaction.cursor(db=databases[b"schemas"]) as cursor:
        numbers = [number for number, _ in cursor]
    removed: dict[bytes, None] = {}
    usage = UsageWriter(transaction, databases)
    for key in keys:
        usage.removed(key, _forget_entries(transaction, databases, key))
        _forget_document(transaction, databases, key)
        transaction.delete(key, db=databases[b"logs"])
        # Not only under the schema that its row names: the row may be what is wrong.
        for number in numbers:
            transaction.delete(number + key, db=databases[b"sync_range"])
        removed[key] = None
    usage.finish()
    return Commit((), (), (), (), removed, {})


def _forget_entries(transaction: Any, databases: Mapping[bytes, Any], key: bytes) -> dict[int, int]:
    """Returns the sizes of what was removed, by sequence number."""
    sizes: dict[int, int] = {}
    with transaction.cursor(db=databases[b"entries"]) as cursor:
        found = cursor.set_range(key)
        while found and cursor.key().startswith(key):
            seq_num = layout.U64.unpack(cursor.key()[layout.LOG_KEY_SIZE :])[0]
            sizes[seq_num] = layout.stored_size(cursor.value())
            try:
                entry, _ = layout.unpack_entry(cursor.value())
            except ValueError:
                entry = b""
            transaction.delete(layout.short_hash(entry_hash(entry)), db=databases[b"operations"])
            # Goes on to the next one by itself.
            found = cursor.delete()
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
        place = key[:32] + layout.short_hash(row.document_id)
        if transaction.get(place, db=databases[b"documents"]) == key[32:]:
            transaction.delete(place, db=databases[b"documents"])
        transaction.delete(layout.short_hash(row.document_id) + key, db=databases[b"deletes"])
