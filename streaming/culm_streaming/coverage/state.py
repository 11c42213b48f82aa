"""The state of one shard of the second stage: many rows in one blob.

A block is a format byte, then the rows of some logs and peers:

    format u8 | 3 zero bytes | number of rows u32 | key of each (73 bytes) | size of each u32 | the rows

Only the rows that a step touches are decoded (`culm_streaming.coverage.held_log`).
"""

import struct

import numpy as np

from culm_streaming.errors import StateMissingError
from culm_streaming.stateful.job_state import Variable, check_format, check_layout

ROW_KEY_SIZE = 73
"""Peer id, then the log's padded key."""
_FORMAT = 1
_HEADER = struct.Struct("<BxxxI")
_LAYOUT = struct.Struct("<BxxxIIQ")


SHARD: Variable[bytes] = Variable("shard")
"""The shard's own record: layout and totals."""
BLOCKS: Variable[bytes] = Variable("blocks", "block int")
"""The packed rows of one block."""
FRAGMENTS: Variable[bytes] = Variable("fragments", "log binary")
"""The links of one log's entries behind gaps."""
PEERS: Variable[int] = Variable("peers", "peer_id binary", "rows long")
"""Number of rows of a peer in this shard."""
VARIABLES = (SHARD, BLOCKS, FRAGMENTS, PEERS)


def encode_block(rows: dict[bytes, bytes]) -> bytes:
    """Return the blob of these rows, by key."""
    keys = sorted(rows)
    sizes = np.array([len(rows[key]) for key in keys], "<u4")
    header = _HEADER.pack(_FORMAT, len(keys))
    return b"".join((header, *keys, sizes.tobytes(), *(rows[key] for key in keys)))


def decode_block(blob: bytes | None) -> dict[bytes, bytes]:
    """Return the rows of a blob, by key; empty without a blob."""
    if blob is None:
        return {}
    form, count = _HEADER.unpack_from(blob)
    check_format("a block of coverage", form, _FORMAT)
    offset = _HEADER.size
    keys = [
        blob[start : start + ROW_KEY_SIZE]
        for start in range(offset, offset + count * ROW_KEY_SIZE, ROW_KEY_SIZE)
    ]
    offset += count * ROW_KEY_SIZE
    sizes = np.frombuffer(blob, "<u4", count, offset)
    ends = (np.cumsum(sizes, dtype=np.int64) + offset + sizes.nbytes).tolist()
    if (ends[-1] if ends else offset) != len(blob):
        raise StateMissingError("a block of coverage has the wrong size")
    starts = [offset + sizes.nbytes, *ends[:-1]]
    return {key: blob[start:end] for key, start, end in zip(keys, starts, ends, strict=True)} if count else {}


def encode_shard(shards: int, blocks: int, fragments: int) -> bytes:
    """Return a shard's own record: its layout, and the number of entries whose links it stores."""
    return _LAYOUT.pack(_FORMAT, shards, blocks, fragments)


def check_shard(blob: bytes | None, shards: int, blocks: int) -> int:
    """Return the number of entries whose links a shard stores.

    Raises `StateLayoutError` for another layout.
    """
    if blob is None:
        return 0
    form, made_shards, made_blocks, fragments = _LAYOUT.unpack(blob)
    check_format("a shard of coverage", form, _FORMAT)
    check_layout((made_shards, made_blocks), (shards, blocks))
    return int(fragments)
