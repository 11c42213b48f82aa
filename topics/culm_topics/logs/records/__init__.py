"""Keys and values of the topics of replicated logs.

`logs`: also `entries`; `receipts`: also `version-vectors`; `blocks`: the kinds of records of `blocks` and
`block-vectors`, and their keys. For logs with gaps: `fragments`, `payloads`, and `coverage`, which has
`holdings` and the runs of both. `announcements` has no record class: its key is a peer key, its value the
Announce message as received.
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
from culm_topics.logs.records.coverage import (
    MAX_COVERAGE_RUNS,
    MAX_HOLDING_RUNS,
    CoverageRecord,
    HoldingRecord,
    Runs,
    clip_runs,
    coverage_key,
    coverage_record,
    holding_records,
    split_coverage_key,
)
from culm_topics.logs.records.fragments import (
    FragmentRecord,
    decode_fragment,
    fragment_key,
    fragment_partition,
    split_fragment_key,
)
from culm_topics.logs.records.logs import EntryRecord, LogRecord
from culm_topics.logs.records.payloads import (
    MAX_PAYLOAD_BYTES,
    PAYLOAD_CHUNK_BYTES,
    PayloadChunkRecord,
    chunk_count,
    decode_payload_chunk,
    hash_flavour,
    payload_chunk_key,
    payload_partition,
    split_payload_chunk_key,
)
from culm_topics.logs.records.receipts import (
    MAX_LOG_HEIGHTS,
    LogHeight,
    ReceiptRecord,
    VersionVectorRecord,
    decode_receipt,
)

__all__ = [
    "DEFAULT_BLOCK_BITS",
    "MAX_BLOCK_BITS",
    "MAX_CHUNK_ROWS",
    "MAX_COVERAGE_RUNS",
    "MAX_HOLDING_RUNS",
    "MAX_LOG_HEIGHTS",
    "MAX_PAYLOAD_BYTES",
    "PAYLOAD_CHUNK_BYTES",
    "ROW_SIZE",
    "BlockHeights",
    "BlockKey",
    "BlockKind",
    "BlockProgress",
    "BlockSummary",
    "CoverageRecord",
    "EntryRecord",
    "FragmentRecord",
    "HoldingRecord",
    "LogHeight",
    "LogRecord",
    "Offsets",
    "PayloadChunkRecord",
    "ProgressKey",
    "ReceiptRecord",
    "Runs",
    "VersionVectorRecord",
    "block_of",
    "chunk_count",
    "clip_runs",
    "coverage_key",
    "coverage_record",
    "decode_fragment",
    "decode_payload_chunk",
    "decode_receipt",
    "fragment_key",
    "fragment_partition",
    "hash_flavour",
    "holding_records",
    "payload_chunk_key",
    "payload_partition",
    "split_block_key",
    "split_coverage_key",
    "split_fragment_key",
    "split_payload_chunk_key",
]
