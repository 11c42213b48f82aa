"""Keys and values of the topics: one small module a record, each with `encode` and `decode`.

- `keys`: log key, peer key, version vector key.
- `shape`: the strict door that every value comes in through.
- `entries`, `logs`, `rejected`, `receipts`, `version_vectors`: one record each.
- `blocks`: the kinds of records of `blocks` and `block-vectors`, and their keys.

`announcements` has no record of its own: its key is a peer key, its value the Announce message as received.
A value is a CBOR array whose first item is a format number; the same shapes are written in `cddl/`.
"""

from culm_topics.records.blocks import (
    DEFAULT_BLOCK_BITS,
    MAX_BLOCK_BITS,
    MAX_CHUNK_ROWS,
    ROW_SIZE,
    BlockHeights,
    BlockKey,
    BlockKind,
    BlockProgress,
    BlockSummary,
    Offsets,
    ProgressKey,
    block_of,
    split_block_key,
)
from culm_topics.records.entries import EntryRecord
from culm_topics.records.keys import (
    HEIGHTS_PEER_ID,
    LOG_KEY_SIZE,
    PEER_ID_SIZE,
    PUBLIC_KEY_SIZE,
    check_peer_key,
    log_key,
    split_log_key,
    split_version_vector_key,
    version_vector_key,
)
from culm_topics.records.logs import LogRecord
from culm_topics.records.receipts import MAX_LOG_HEIGHTS, LogHeight, ReceiptRecord
from culm_topics.records.rejected import RejectedRecord, Source
from culm_topics.records.version_vectors import VersionVectorRecord

__all__ = [
    "DEFAULT_BLOCK_BITS",
    "HEIGHTS_PEER_ID",
    "LOG_KEY_SIZE",
    "MAX_BLOCK_BITS",
    "MAX_CHUNK_ROWS",
    "MAX_LOG_HEIGHTS",
    "PEER_ID_SIZE",
    "PUBLIC_KEY_SIZE",
    "ROW_SIZE",
    "BlockHeights",
    "BlockKey",
    "BlockKind",
    "BlockProgress",
    "BlockSummary",
    "EntryRecord",
    "LogHeight",
    "LogRecord",
    "Offsets",
    "ProgressKey",
    "ReceiptRecord",
    "RejectedRecord",
    "Source",
    "VersionVectorRecord",
    "block_of",
    "check_peer_key",
    "log_key",
    "split_block_key",
    "split_log_key",
    "split_version_vector_key",
    "version_vector_key",
]
