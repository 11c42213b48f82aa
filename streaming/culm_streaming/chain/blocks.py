"""The state of the logs of one block as one blob: a format byte, then columns of fixed-size records.

    format u8 | 3 zero bytes | number of logs u32 | LOG each | SKIPLINK of each log | TAIL of each log

Blobs are rewritten whole when one of their logs grows, so a block is meant to hold tens to hundreds of logs.
"""

import struct

import numpy as np

from culm_streaming.chain.rows import Array
from culm_streaming.errors import StateLayoutError

FORMAT = 1
ENDED = 1

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
"""`hash` is the last accepted entry's; `skiplinks` and `tail` count the log's records behind the logs."""

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
    assert offset + tail.nbytes == len(blob), "a block of state has the wrong size"
    return logs, skiplinks, tail
