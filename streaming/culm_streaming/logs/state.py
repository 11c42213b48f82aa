"""The state of one shard: four small maps of packed bytes, and what is in them.

In the job the maps are Spark state variables (`culm_streaming.logs.job`); here they are dictionaries, for
tests and tools. A block is a format byte, then columns of fixed-size records:

    format u8 | 3 zero bytes | number of logs u32 | LOG each | SKIPLINK of each log | TAIL of each log

Blobs are rewritten whole when one of their logs grows, so a block is meant to hold tens to hundreds of logs.

Eight bytes of the hash and the entry's place in `entries` are kept for every accepted entry. The latest are
in the log's block; every `CHUNK` entries move to a record of their own, so that blocks stay small however
long a log grows. (Who looks for two own entries that share eight bytes of their hashes has 2**32 hashes to
try, and gains that the second one is dropped as a repeat instead of being reported.)
"""

import struct
from typing import Protocol

import numpy as np

from culm_streaming.errors import StateLayoutError, StateMissingError
from culm_streaming.logs.rows import Array


class ShardStore(Protocol):
    """The state of one shard. What was never saved is None; saving None removes."""

    def load_totals(self) -> bytes | None:
        """The shard's own record: layout and totals."""

    def save_totals(self, blob: bytes) -> None:
        """Keep the shard's own record."""

    def load_block(self, block: int) -> bytes | None:
        """The packed state of the logs of one block."""

    def save_block(self, block: int, blob: bytes) -> None:
        """Keep the packed state of the logs of one block."""

    def load_chunk(self, log_key: bytes, chunk: int) -> bytes | None:
        """One full chunk of a long log's history."""

    def save_chunk(self, log_key: bytes, chunk: int, blob: bytes) -> None:
        """Keep one full chunk of a long log's history."""

    def load_early(self, log_key: bytes) -> bytes | None:
        """The packed early arrivals of one log."""

    def save_early(self, log_key: bytes, blob: bytes | None) -> None:
        """Keep the packed early arrivals of one log, or none of them."""


class MemoryShardStore:
    """A shard's state in memory. `saves` counts what was written."""

    def __init__(self) -> None:
        self.totals: bytes | None = None
        self.blocks: dict[int, bytes] = {}
        self.chunks: dict[tuple[bytes, int], bytes] = {}
        self.early: dict[bytes, bytes] = {}
        self.saves = 0

    def copy(self) -> "MemoryShardStore":
        """A copy, independent of this one."""
        other = MemoryShardStore()
        other.totals, other.blocks = self.totals, dict(self.blocks)
        other.chunks, other.early = dict(self.chunks), dict(self.early)
        return other

    def load_totals(self) -> bytes | None:
        """See `ShardStore`."""
        return self.totals

    def save_totals(self, blob: bytes) -> None:
        """See `ShardStore`."""
        self.saves += 1
        self.totals = blob

    def load_block(self, block: int) -> bytes | None:
        """See `ShardStore`."""
        return self.blocks.get(block)

    def save_block(self, block: int, blob: bytes) -> None:
        """See `ShardStore`."""
        self.saves += 1
        self.blocks[block] = blob

    def load_chunk(self, log_key: bytes, chunk: int) -> bytes | None:
        """See `ShardStore`."""
        return self.chunks.get((log_key, chunk))

    def save_chunk(self, log_key: bytes, chunk: int, blob: bytes) -> None:
        """See `ShardStore`."""
        self.saves += 1
        self.chunks[log_key, chunk] = blob

    def load_early(self, log_key: bytes) -> bytes | None:
        """See `ShardStore`."""
        return self.early.get(log_key)

    def save_early(self, log_key: bytes, blob: bytes | None) -> None:
        """See `ShardStore`."""
        self.saves += 1
        if blob is None:
            self.early.pop(log_key, None)
        else:
            self.early[log_key] = blob


FORMAT = 1
ENDED = 1

CHUNK = 256
_CHUNK_FORMAT = 1

LOG = np.dtype(
    [
        ("key", "V40"),
        ("height", "<u8"),
        ("hash", "<u8", (4,)),
        ("schema", "<u8", (2,)),
        ("early_bytes", "<u4"),
        ("early_count", "<u2"),
        ("skiplinks", "<u2"),
        ("tail", "<u2"),
        ("flags", "u1"),
    ]
)
"""`key` and hashes are as in `rows.HEAD`. `hash` is the last accepted entry's; `skiplinks` and `tail` count
the log's records behind the logs."""

SKIPLINK = np.dtype([("seq_num", "<u8"), ("hash", "<u8", (4,))])
"""An accepted entry that a future skiplink will name."""

TAIL = np.dtype([("prefix", "<u8"), ("source", "<u8")])
"""An accepted entry: the first 8 bytes of its hash, and where in `entries` it came from."""

_HEADER = struct.Struct("<BxxxI")


def encode_block(logs: Array, skiplinks: Array, tail: Array) -> bytes:
    """The blob of these logs; skiplinks and tail in the order of the logs."""
    header = _HEADER.pack(FORMAT, len(logs))
    return b"".join((header, logs.tobytes(), skiplinks.tobytes(), tail.tobytes()))


def decode_block(blob: bytes) -> tuple[Array, Array, Array]:
    """(logs, skiplinks, tail) of a blob; `StateLayoutError` when it is of another format."""
    form, count = _HEADER.unpack_from(blob)
    if form != FORMAT:
        raise StateLayoutError(f"a block of state has format {form}, this program knows {FORMAT}")
    offset = _HEADER.size
    logs = np.frombuffer(blob, LOG, count, offset)
    offset += logs.nbytes
    skiplinks = np.frombuffer(blob, SKIPLINK, int(logs["skiplinks"].sum(dtype=np.int64)), offset)
    offset += skiplinks.nbytes
    tail = np.frombuffer(blob, TAIL, int(logs["tail"].sum(dtype=np.int64)), offset)
    if offset + tail.nbytes != len(blob):
        raise StateMissingError("a block of state has the wrong size")
    return logs, skiplinks, tail


def save_chunk(store: ShardStore, log_key: bytes, chunk: int, entries: Array) -> None:
    """Keep `CHUNK` entries of a log's history, which follow those of the chunks before."""
    assert len(entries) == CHUNK
    store.save_chunk(log_key, chunk, bytes((_CHUNK_FORMAT,)) + entries.tobytes())


def load_chunk(store: ShardStore, log_key: bytes, chunk: int) -> Array:
    """`CHUNK` entries of a log's history."""
    blob = store.load_chunk(log_key, chunk)
    if blob is None:
        raise StateMissingError(f"chunk {chunk} of a log's history is missing")
    if blob[0] != _CHUNK_FORMAT:
        raise StateLayoutError(f"a chunk of history has format {blob[0]}, this program knows {_CHUNK_FORMAT}")
    return np.frombuffer(blob, TAIL, CHUNK, 1)
