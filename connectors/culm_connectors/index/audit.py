"""Whether the records of an index agree: the row of every log with its entries and its sync range.

Structure (pages, lengths) is looked at when the file is opened; this looks at what the records say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from culm_connectors.index import layout

_SEQ_NUM_AT = layout.LOG_KEY_SIZE


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
