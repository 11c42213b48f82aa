"""The packed form of a checked entry on its way to the state of its log.

A row is a head of fixed size and the ready-made value for `logs`. Rows cross the shuffle by the thousand in
one packed record a shard: moving them one by one would cost more than checking them.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from culm_topics.records import LOG_KEY_SIZE

Array = NDArray[Any]

END_OF_LOG = 1
HAS_SKIPLINK = 2
READY = 4
"""The value is a ready-made record of `rejected`; the head's key (its first 40 bytes), source and flags alone
have meaning."""
KEYLESS = 8
"""Only with `READY`: no log can be told, so the record's key is empty."""
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
the Kafka partition (16 bits) and offset (48 bits) that the entry came from.

A key and hashes of the YAMF flavour are longer: `yamf_key` and `yamf_digest` stand for them."""

PACK_HEAD = struct.Struct("<40sQQ32s32s32s16s32sHB").pack
HEAD_SIZE = HEAD.itemsize
assert struct.calcsize("<40sQQ32s32s32s16s32sHB") == HEAD_SIZE

SIZE = np.dtype("<u4")
NO_HASH = bytes(32)


def yamf_key(log_key: bytes) -> bytes:
    """What stands for the key of a YAMF log: the author's YASMF log of that number has its first 40 bytes."""
    return blake3(log_key).digest(length=LOG_KEY_SIZE)


def yamf_digest(entry_hash: bytes) -> bytes:
    """What stands for a YAMF hash wherever hashes are compared, on both sides."""
    return blake3(entry_hash).digest()


def pack_source(partition: int, offset: int) -> int:
    """Kafka partition and offset as one number that orders records as Kafka does."""
    return partition << OFFSET_BITS | offset


def split_source(source: int) -> tuple[int, int]:
    """(partition, offset) of a packed source."""
    return source >> OFFSET_BITS, source & _OFFSET_MASK


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows side by side: `heads` an array of `HEAD`, `values` as many byte strings."""

    heads: Array
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.values)


def pack_rows(heads: list[bytes], values: list[bytes]) -> tuple[bytes, bytes, bytes]:
    """(heads, value sizes, values) of packed heads and their values, each end to end."""
    sizes = np.fromiter(map(len, values), SIZE, len(values))
    return b"".join(heads), sizes.tobytes(), b"".join(values)


def unpack_rows(packed: list[tuple[bytes, bytes, bytes]]) -> Rows:
    """The rows of packed records, in their order."""
    heads = np.frombuffer(b"".join([record[0] for record in packed]), HEAD)
    values: list[bytes] = []
    for _, sizes, joined in packed:
        ends = np.cumsum(np.frombuffer(sizes, SIZE), dtype=np.int64).tolist()
        values += [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert len(heads) == len(values)
    return Rows(heads, values)


def packed_hash(row_hash: Array) -> bytes:
    """One 32-byte hash out of an array of heads or of state."""
    return bytes(row_hash.tobytes())
