"""The packed form of a checked entry on its way to the state of its log.

A row is a head of fixed size and the ready-made value for `logs`. Thousands of rows cross the shuffle in one
packed record per shard: moving them one by one would cost more than checking them.

The value is cut out of the value of `entries`, which gives the same bytes as decoding and encoding at less
cost. Both records encode entry, operation and schema id identically, so they are copied with their heads.
Only the usual lengths are handled here. For any other form the result is None, and `culm_topics.records`
decides whether it is a valid record.
"""

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import cbor2
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from culm_topics.records import LOG_KEY_SIZE

Array = NDArray[Any]

END_OF_LOG = 1
HAS_SKIPLINK = 2
READY = 4
"""The value is a ready-made record of `rejected`; only the head's key (its first 40 bytes), source and flags
have meaning."""
KEYLESS = 8
"""Only with `READY`: the log is unknown, so the record's key is empty."""
FROM_STATE = 16
"""The row was held back as an early arrival of an earlier batch."""
YAMF_LOG = 32
"""The log has hashes of the YAMF flavour; see `HEAD`."""

OFFSET_BITS = 48
_OFFSET_MASK = (1 << OFFSET_BITS) - 1

HEAD = np.dtype(
    [
        ("key", "V40"),
        ("seq_num", "<u8"),
        ("source", "<u8"),
        ("hash", "<u8", (4,)),
        ("backlink", "<u8", (4,)),
        ("skiplink", "<u8", (4,)),
        ("schema", "<u8", (2,)),
        ("brought_by", "V32"),
        ("block", "<u2"),
        ("flags", "u1"),
    ]
)
"""Hashes without their two-byte prefix; `schema` is the first 16 bytes of the schema id's hash; `source` is
the Kafka partition (16 bits) and offset (48 bits) of the entry's record.

A key and hashes of the YAMF flavour are longer: they are replaced by `yamf_key` and `yamf_digest`.
"""

PACK_HEAD = struct.Struct("<40sQQ32s32s32s16s32sHB").pack
HEAD_SIZE = HEAD.itemsize
assert struct.calcsize("<40sQQ32s32s32s16s32sHB") == HEAD_SIZE

SIZE = np.dtype("<u4")
NO_HASH = bytes(32)


def yamf_key(log_key: bytes) -> bytes:
    """Return the substitute for a YAMF log's key, whose first 40 bytes are also a YASMF log's key."""
    return blake3(log_key).digest(length=LOG_KEY_SIZE)


def yamf_digest(entry_hash: bytes) -> bytes:
    """Return the substitute for a YAMF hash wherever hashes are compared, on both sides."""
    return blake3(entry_hash).digest()


def pack_source(partition: int, offset: int) -> int:
    """Return Kafka partition and offset as one number that orders records as Kafka does."""
    return partition << OFFSET_BITS | offset


def split_source(source: int) -> tuple[int, int]:
    """Return (partition, offset) of a packed source."""
    return source >> OFFSET_BITS, source & _OFFSET_MASK


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Rows in columns: `heads` is an array of `HEAD`, `values` has as many byte strings."""

    heads: Array
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.values)


def pack_rows(heads: list[bytes], values: list[bytes]) -> tuple[bytes, bytes, bytes]:
    """Return (heads, value sizes, values) of packed heads and their values, each concatenated."""
    sizes = np.fromiter(map(len, values), SIZE, len(values))
    return b"".join(heads), sizes.tobytes(), b"".join(values)


def unpack_rows(packed: list[tuple[bytes, bytes, bytes]]) -> EntryRows:
    """Return the rows of packed records, in order."""
    heads = np.frombuffer(b"".join([record[0] for record in packed]), HEAD)
    values: list[bytes] = []
    for _, sizes, joined in packed:
        ends = np.cumsum(np.frombuffer(sizes, SIZE), dtype=np.int64).tolist()
        values += [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert len(heads) == len(values)
    return EntryRows(heads, values)


def packed_hash(row_hash: Array) -> bytes:
    """Return a 32-byte hash from an array of heads or of state."""
    return bytes(row_hash.tobytes())


_START = b"\x87\x01"
_PEER_HEAD = b"\x58\x20"
_HASH_HEAD = b"\x58\x22"
_LOG_START = b"\x86\x01"
_SEQ_HEADS = tuple(_LOG_START + cbor2.dumps(seq_num) for seq_num in range(1024))


class RecordParts(NamedTuple):
    """The parts of `value`, and the ends of its operation and its schema id."""

    value: bytes
    entry: bytes
    operation: bytes
    schema: bytes
    brought_by: bytes
    operation_end: int
    schema_end: int


def take_apart(value: bytes) -> RecordParts | None:
    """Return the parts of a value of `entries` in its usual form, else None."""
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
        position = schema_end + 34
        head = value[position]
        # The session: a small number, or one of one or two bytes.
        if head < 24:
            position += 1
        elif head == 0x18 and value[position + 1] >= 24:
            position += 2
        elif head == 0x19 and value[position + 1]:
            position += 3
        else:
            return None
        head = value[position]
        if 0x48 <= head <= 0x57:
            position += 1 + head - 0x40
        elif head == 0x58 and 24 <= value[position + 1] <= 32:
            position += 2 + value[position + 1]
        else:
            return None
    except IndexError:
        return None
    if position != len(value):
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
    """Return the value of `logs` with these parts, as `LogRecord.encode` encodes it."""
    value, end = parts.value, parts.operation_end
    head = _SEQ_HEADS[seq_num] if seq_num < 1024 else _LOG_START + cbor2.dumps(seq_num)
    return b"".join((head, value[2:end], _HASH_HEAD, entry_hash, value[end : parts.schema_end]))
