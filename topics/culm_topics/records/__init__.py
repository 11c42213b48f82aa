"""Keys and values of the topics: one small module a record, each with `encode` and `decode`.

- `keys`: log key, peer key, version vector key.
- `shape`: the strict door that every value comes in through.
- `entries`, `logs`, `rejected`, `receipts`, `version_vectors`: one record each.
- `blocks`: the kinds of records of `blocks` and `block-vectors`, and their keys.
- `sds_*`: one record each of the `sds.*` topics, but `sds_keys` (their keys, and a channel's partition) and
  `sds_shape` (items that several of them have).

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
from culm_topics.records.sds_acks import AckState, SdsAckRecord, SdsChannelRecord, SdsParticipantRecord
from culm_topics.records.sds_commands import TOKEN_SIZE, SdsCommand, SdsCommandRecord
from culm_topics.records.sds_events import SdsEventKind, SdsEventRecord
from culm_topics.records.sds_fetch import MAX_FETCH_ENTRIES, SdsFetchRecord
from culm_topics.records.sds_in import SdsInRecord
from culm_topics.records.sds_index import SdsIndexRecord, check_of
from culm_topics.records.sds_keys import (
    AckKey,
    AckKind,
    channel_key,
    index_key,
    owner_key,
    shard_of,
    split_ack_key,
    split_channel_key,
    split_index_key,
    split_owner_key,
)
from culm_topics.records.sds_messages import SdsMessageRecord
from culm_topics.records.sds_out import SdsOutKind, SdsOutRecord
from culm_topics.records.sds_owners import OwnedRole, SdsOwnerRecord
from culm_topics.records.sds_shape import (
    MAX_DETAIL_ITEMS,
    MAX_HINT_BYTES,
    MAX_ID_BYTES,
    Detail,
    Details,
    is_id,
)
from culm_topics.records.version_vectors import VersionVectorRecord

__all__ = [
    "DEFAULT_BLOCK_BITS",
    "HEIGHTS_PEER_ID",
    "LOG_KEY_SIZE",
    "MAX_BLOCK_BITS",
    "MAX_CHUNK_ROWS",
    "MAX_DETAIL_ITEMS",
    "MAX_FETCH_ENTRIES",
    "MAX_HINT_BYTES",
    "MAX_ID_BYTES",
    "MAX_LOG_HEIGHTS",
    "PEER_ID_SIZE",
    "PUBLIC_KEY_SIZE",
    "ROW_SIZE",
    "TOKEN_SIZE",
    "AckKey",
    "AckKind",
    "AckState",
    "BlockHeights",
    "BlockKey",
    "BlockKind",
    "BlockProgress",
    "BlockSummary",
    "Detail",
    "Details",
    "EntryRecord",
    "LogHeight",
    "LogRecord",
    "Offsets",
    "OwnedRole",
    "ProgressKey",
    "ReceiptRecord",
    "RejectedRecord",
    "SdsAckRecord",
    "SdsChannelRecord",
    "SdsCommand",
    "SdsCommandRecord",
    "SdsEventKind",
    "SdsEventRecord",
    "SdsFetchRecord",
    "SdsInRecord",
    "SdsIndexRecord",
    "SdsMessageRecord",
    "SdsOutKind",
    "SdsOutRecord",
    "SdsOwnerRecord",
    "SdsParticipantRecord",
    "Source",
    "VersionVectorRecord",
    "block_of",
    "channel_key",
    "check_of",
    "check_peer_key",
    "index_key",
    "is_id",
    "log_key",
    "owner_key",
    "shard_of",
    "split_ack_key",
    "split_block_key",
    "split_channel_key",
    "split_index_key",
    "split_log_key",
    "split_owner_key",
    "split_version_vector_key",
    "version_vector_key",
]
