"""Layout of the lmdb file of Chotki's local store.

| database | key | value |
|---|---|---|
| fields | store key (18) | seen vector's length plus 1, or 0 for none; seen vector; bare value |
| vectors | store key (18), the global one first | vector (TLV) |
| meta | `format` | format number, u32 |
| meta | `origin` | see `culm_topics.kafka.origin` |
| meta | `epoch` | the mark of the epoch that the store is at (`EpochRecord`); missing before the first |
| meta | `incomplete` | empty; present while the store is being built and is at no epoch |
| meta | `offset` partition, u32 | the offset of `chotki.state` at which reading continues, u64 |
| meta | `large` store key | the size of a field of more than `LARGE_FIELD_BYTES`, u64 |
| meta | `mark` partition, u32 | the mark that was the last record of the partition before this offset |

The length of a seen vector takes one byte up to 253, else `ff` and four. All numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

FORMAT: Final = 1
FIELDS: Final = b"fields"
VECTORS: Final = b"vectors"
META: Final = b"meta"
DATABASES: Final = (FIELDS, VECTORS, META)

FORMAT_KEY: Final = b"format"
ORIGIN_KEY: Final = b"origin"
EPOCH_KEY: Final = b"epoch"
INCOMPLETE_KEY: Final = b"incomplete"
OFFSET_PREFIX: Final = b"offset"
MARK_PREFIX: Final = b"mark"
LARGE_PREFIX: Final = b"large"

U32: Final = struct.Struct(">I")
U64: Final = struct.Struct(">Q")
_LONG: Final = 0xFF

Field = tuple[bytes, bytes, bytes | None]
"""A field: key, value, seen vector."""


def offset_key(partition: int) -> bytes:
    """Return the key of a partition's offset in `meta`."""
    return OFFSET_PREFIX + U32.pack(partition)


def mark_key(partition: int) -> bytes:
    """Return the key of a partition's last mark in `meta`."""
    return MARK_PREFIX + U32.pack(partition)


def pack_field(value: bytes, seen: bytes | None) -> bytes:
    """Encode a field's value and seen vector."""
    if seen is None:
        return b"\x00" + value
    if len(seen) + 1 < _LONG:
        return bytes((len(seen) + 1,)) + seen + value
    return bytes((_LONG,)) + U32.pack(len(seen)) + seen + value


def unpack_field(packed: bytes) -> tuple[bytes, bytes | None]:
    """Decode a field. Returns its value and seen vector. Raises `ValueError` if it is malformed."""
    if not packed:
        raise ValueError("a field without a head")
    head, start = packed[0], 1
    if head == 0:
        return packed[1:], None
    size = head - 1
    if head == _LONG:
        start = 1 + U32.size
        size = int.from_bytes(packed[1:start], "big")
    end = start + size
    if end > len(packed):
        raise ValueError("a seen vector that is longer than its record")
    return packed[end:], packed[start:end]


def unpack_fields(items: Iterable[tuple[bytes, bytes]]) -> list[Field]:
    """Decode many fields, fast if most have no seen vector. Raises `ValueError` if one is malformed."""
    return [
        (key, packed[1:], None) if packed[:1] == b"\x00" else (key, *unpack_field(packed))
        for key, packed in items
    ]
