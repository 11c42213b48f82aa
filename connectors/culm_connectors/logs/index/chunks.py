"""Parts of logs, read in pieces of bounded size; from any thread."""

from __future__ import annotations

from collections.abc import Sequence

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.audit import checked_entry
from culm_connectors.logs.index.environment import Environment

Pair = tuple[bytes, bytes]
Range = tuple[bytes, int, int, int]
"""Public key, log id, first and last sequence number."""


def read_chunk(environment: Environment, part: Range, max_bytes: int) -> list[Pair]:
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


def read_ranges(environment: Environment, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
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
