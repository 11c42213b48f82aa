"""The state of one shard: what both stages need from whoever keeps it; many rows in one blob.

In the job the maps are Spark state variables (`culm_streaming.coverage.job`); here they are dictionaries, for
tests and tools. A block is a format byte, then the rows of some logs and peers:

    format u8 | 3 zero bytes | number of rows u32 | key of each (73 bytes) | size of each u32 | the rows

Only the rows that a step touches are taken apart (`culm_streaming.coverage.held_log`).
"""

import struct
from typing import Protocol

import numpy as np

from culm_streaming.errors import StateLayoutError, StateMissingError

ROW_KEY_SIZE = 73
"""Peer id, then the log's padded key."""
_FORMAT = 1
_HEADER = struct.Struct("<BxxxI")
_LAYOUT = struct.Struct("<BxxxIIQ")


class CoverageStore(Protocol):
    """The state of one shard of the second stage. What was never saved is None; saving None removes."""

    def load_shard(self) -> bytes | None:
        """The shard's own record: layout and totals."""

    def save_shard(self, blob: bytes) -> None:
        """Keep the shard's own record."""

    def load_block(self, block: int) -> bytes | None:
        """The packed rows of one block."""

    def save_block(self, block: int, blob: bytes) -> None:
        """Keep the packed rows of one block."""

    def load_fragments(self, log: bytes) -> bytes | None:
        """The links of one log's entries with gaps before them."""

    def save_fragments(self, log: bytes, blob: bytes | None) -> None:
        """Keep them, or none of them."""

    def load_peer(self, peer_id: bytes) -> int:
        """How many rows the peer has in this shard."""

    def save_peer(self, peer_id: bytes, rows: int) -> None:
        """Keep that number."""


class MemoryCoverageStore:
    """A shard's state in memory. `saves` counts what was written."""

    def __init__(self) -> None:
        self.shard: bytes | None = None
        self.blocks: dict[int, bytes] = {}
        self.fragments: dict[bytes, bytes] = {}
        self.peers: dict[bytes, int] = {}
        self.saves = 0

    def load_shard(self) -> bytes | None:
        """See `CoverageStore`."""
        return self.shard

    def save_shard(self, blob: bytes) -> None:
        """See `CoverageStore`."""
        self.saves += 1
        self.shard = blob

    def load_block(self, block: int) -> bytes | None:
        """See `CoverageStore`."""
        return self.blocks.get(block)

    def save_block(self, block: int, blob: bytes) -> None:
        """See `CoverageStore`."""
        self.saves += 1
        self.blocks[block] = blob

    def load_fragments(self, log: bytes) -> bytes | None:
        """See `CoverageStore`."""
        return self.fragments.get(log)

    def save_fragments(self, log: bytes, blob: bytes | None) -> None:
        """See `CoverageStore`."""
        self.saves += 1
        if blob is None:
            self.fragments.pop(log, None)
        else:
            self.fragments[log] = blob

    def load_peer(self, peer_id: bytes) -> int:
        """See `CoverageStore`."""
        return self.peers.get(peer_id, 0)

    def save_peer(self, peer_id: bytes, rows: int) -> None:
        """See `CoverageStore`."""
        self.saves += 1
        self.peers[peer_id] = rows


def encode_block(rows: dict[bytes, bytes]) -> bytes:
    """The blob of these rows, by key."""
    keys = sorted(rows)
    sizes = np.array([len(rows[key]) for key in keys], "<u4")
    header = _HEADER.pack(_FORMAT, len(keys))
    return b"".join((header, *keys, sizes.tobytes(), *(rows[key] for key in keys)))


def decode_block(blob: bytes | None) -> dict[bytes, bytes]:
    """The rows of a blob, by key; none where there is no blob."""
    if blob is None:
        return {}
    form, count = _HEADER.unpack_from(blob)
    if form != _FORMAT:
        raise StateLayoutError(f"a block of coverage has format {form}, this program knows {_FORMAT}")
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
    """A shard's own record: its layout, and how many entries' links it keeps."""
    return _LAYOUT.pack(_FORMAT, shards, blocks, fragments)


def check_shard(blob: bytes | None, shards: int, blocks: int) -> int:
    """How many entries' links a shard keeps. Raises `StateLayoutError` when its layout is another."""
    if blob is None:
        return 0
    form, made_shards, made_blocks, fragments = _LAYOUT.unpack(blob)
    if form != _FORMAT:
        raise StateLayoutError(f"a shard of coverage has format {form}, this program knows {_FORMAT}")
    if (made_shards, made_blocks) != (shards, blocks):
        raise StateLayoutError(
            f"the checkpoint was made with {made_shards} shards of {made_blocks} blocks, not {shards} of "
            f"{blocks}: go on with those numbers, or start a new checkpoint"
        )
    return int(fragments)
