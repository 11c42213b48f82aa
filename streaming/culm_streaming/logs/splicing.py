"""The value for `logs` cut out of the value of `entries`: the bytes of decoding and encoding, at less cost.

Both records hold entry, operation and schema id in the same spelling, so they are copied with their heads.
Only the usual lengths are taken apart here. Whatever else a record may hold gives None and is left to
`culm_topics.records`, which decides what is a record and what is not.
"""

from typing import NamedTuple

import cbor2

_START = b"\x87\x01"
_PEER_HEAD = b"\x58\x20"
_HASH_HEAD = b"\x58\x22"
_LOG_START = b"\x86\x01"
_SEQ_HEADS = tuple(_LOG_START + cbor2.dumps(seq_num) for seq_num in range(1024))


class RecordParts(NamedTuple):
    """The parts of `value`, and where its operation and its schema id end."""

    value: bytes
    entry: bytes
    operation: bytes
    schema: bytes
    brought_by: bytes
    operation_end: int
    schema_end: int


def take_apart(value: bytes) -> RecordParts | None:
    """The parts of a value of `entries` in its usual spelling, else None."""
    try:
        if not value.startswith(_START):
            return None
        size = value[3]
        if value[2] == 0x58 and size >= 24:
            start = 4
        elif value[2] == 0x59 and size:
            start, size = 5, size << 8 | value[4]
        else:
            return None
        end = start + size
        entry = value[start:end]
        head = value[end]
        if 0x40 <= head <= 0x57:
            start, size = end + 1, head - 0x40
        elif head == 0x58 and value[end + 1] >= 24:
            start, size = end + 2, value[end + 1]
        elif head == 0x59 and value[end + 1]:
            start, size = end + 3, value[end + 1] << 8 | value[end + 2]
        else:
            return None
        operation_end = start + size
        operation = value[start:operation_end]
        head = value[operation_end]
        if 0x60 <= head <= 0x77:
            start, size = operation_end + 1, head - 0x60
        elif head == 0x78 and value[operation_end + 1] >= 24:
            start, size = operation_end + 2, value[operation_end + 1]
        else:
            return None
        schema_end = start + size
        if not value.startswith(_PEER_HEAD, schema_end):
            return None
        place = schema_end + 34
        head = value[place]
        # The session: a small number, or one of one or two bytes.
        if head < 24:
            place += 1
        elif head == 0x18 and value[place + 1] >= 24:
            place += 2
        elif head == 0x19 and value[place + 1]:
            place += 3
        else:
            return None
        head = value[place]
        if 0x48 <= head <= 0x57:
            place += 1 + head - 0x40
        elif head == 0x58 and 24 <= value[place + 1] <= 32:
            place += 2 + value[place + 1]
        else:
            return None
    except IndexError:
        return None
    if place != len(value):
        return None
    return RecordParts(
        value,
        entry,
        operation,
        value[start:schema_end],
        value[schema_end + 2 : schema_end + 34],
        operation_end,
        schema_end,
    )


def log_value(parts: RecordParts, seq_num: int, entry_hash: bytes) -> bytes:
    """The value of `logs` with these parts, as `LogRecord.encode` gives it."""
    value, end = parts.value, parts.operation_end
    head = _SEQ_HEADS[seq_num] if seq_num < 1024 else _LOG_START + cbor2.dumps(seq_num)
    return b"".join((head, value[2:end], _HASH_HEAD, entry_hash, value[end : parts.schema_end]))
