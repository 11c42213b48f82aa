"""The state of one shard: four variables of packed bytes, and what is in them.

A block is a format byte, then columns of fixed-size records:

    format u8 | 3 zero bytes | number of logs u32 | LOG each | SKIPLINK of each log | TAIL of each log

Blobs are rewritten whole when one of their logs grows, so a block is meant to hold tens to hundreds of logs.

Eight bytes of the hash and the entry's place in `entries` are kept for every accepted entry. The latest are
in the log's block; every `CHUNK` entries move to a record of their own, so that blocks stay small however
long a log grows. (Who looks for two own entries that share eight bytes of their hashes has 2**32 hashes to
try, and gains that the second one is dropped as a repeat instead of being reported.)
"""

import struct

import numpy as np

from culm_streaming.errors import StateMissingError
from culm_streaming.logs.rows import Array
from culm_streaming.stateful.job_state import JobState, Variable, check_format

TOTALS: Variable[bytes] = Variable("totals")
"""The shard's own record: layout and totals."""
BLOCKS: Variable[bytes] = Variable("blocks", "block int")
"""The packed state of the logs of one block."""
HISTORY: Variable[bytes] = Variable("history", "log_key binary, chunk long")
"""Full chunks of a long log's history."""
EARLY: Variable[bytes] = Variable("early", "log_key binary")
"""The packed early arrivals of one log."""
VARIABLES = (TOTALS, BLOCKS, HISTORY, EARLY)

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
    check_format("a block of state", form, FORMAT)
    offset = _HEADER.size
    logs = np.frombuffer(blob, LOG, count, offset)
    offset += logs.nbytes
    skiplinks = np.frombuffer(blob, SKIPLINK, int(logs["skiplinks"].sum(dtype=np.int64)), offset)
    offset += skiplinks.nbytes
    tail = np.frombuffer(blob, TAIL, int(logs["tail"].sum(dtype=np.int64)), offset)
    if offset + tail.nbytes != len(blob):
        raise StateMissingError("a block of state has the wrong size")
    return logs, skiplinks, tail


def save_chunk(store: JobState, log_key: bytes, chunk: int, entries: Array) -> None:
    """Keep `CHUNK` entries of a log's history, which follow those of the chunks before."""
    assert len(entries) == CHUNK
    store.save(HISTORY, (log_key, chunk), bytes((_CHUNK_FORMAT,)) + entries.tobytes())


def load_chunk(store: JobState, log_key: bytes, chunk: int) -> Array:
    """`CHUNK` entries of a log's history."""
    blob = store.load(HISTORY, (log_key, chunk))
    if blob is None:
        raise StateMissingError(f"chunk {chunk} of a log's history is missing")
    check_format("a chunk of history", blob[0], _CHUNK_FORMAT)
    return np.frombuffer(blob, TAIL, CHUNK, 1)
