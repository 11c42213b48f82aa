"""Keys and values of the topics of replicated logs, one small module a record.

`entries`, `logs`, `receipts`, `version_vectors`; `blocks`: the kinds of records of `blocks` and
`block-vectors`, and their keys. `announcements` has no record of its own: its key is a peer key, its value
the Announce message as received.
"""

from culm_topics.logs.records.blocks import (
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
from culm_topics.logs.records.entries import EntryRecord
from culm_topics.logs.records.logs import LogRecord
from culm_topics.logs.records.receipts import MAX_LOG_HEIGHTS, LogHeight, ReceiptRecord, decode_receipt
from culm_topics.logs.records.version_vectors import VersionVectorRecord

__all__ = [
    "DEFAULT_BLOCK_BITS",
    "MAX_BLOCK_BITS",
    "MAX_CHUNK_ROWS",
    "MAX_LOG_HEIGHTS",
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
    "VersionVectorRecord",
    "block_of",
    "decode_receipt",
    "split_block_key",
]
