"""Which entry was accepted at which sequence number: what tells a repeat from a fork.

Eight bytes of the hash and the entry's place in `entries` are kept for every accepted entry. The latest are
in the log's block; every `CHUNK` entries move to a record of their own, so that blocks stay small however
long a log grows. (Who looks for two own entries that share eight bytes of their hashes has 2**32 hashes to
try, and gains that the second one is dropped as a repeat instead of being reported.)
"""

import numpy as np

from culm_streaming.chain.blocks import TAIL
from culm_streaming.chain.rows import Array
from culm_streaming.chain.store import ShardStore
from culm_streaming.errors import StateLayoutError

CHUNK = 256
FORMAT = 1


def save_chunk(store: ShardStore, log_key: bytes, chunk: int, entries: Array) -> None:
    """Keep `CHUNK` entries of a log's history, which follow those of the chunks before."""
    assert len(entries) == CHUNK
    store.save_chunk(log_key, chunk, bytes((FORMAT,)) + entries.tobytes())


def load_chunk(store: ShardStore, log_key: bytes, chunk: int) -> Array:
    """`CHUNK` entries of a log's history."""
    blob = store.load_chunk(log_key, chunk)
    assert blob is not None, f"chunk {chunk} of a log's history is missing"
    if blob[0] != FORMAT:
        raise StateLayoutError(f"a chunk of history has format {blob[0]}, this program knows {FORMAT}")
    return np.frombuffer(blob, TAIL, CHUNK, 1)
