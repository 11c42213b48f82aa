"""Keys and values of the topics: one small module a record, each with `encode` and `decode`.

- `keys`: log key, peer key, version vector key.
- `shape`: the strict door that every value comes in through.
- `entries`, `logs`, `rejected`, `receipts`, `version_vectors`: one record each.

`announcements` has no record of its own: its key is a peer key, its value the Announce message as received.
A value is a CBOR array whose first item is a format number; the same shapes are written in `cddl/`.
"""

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
    "HEIGHTS_PEER_ID",
    "LOG_KEY_SIZE",
    "MAX_LOG_HEIGHTS",
    "PEER_ID_SIZE",
    "PUBLIC_KEY_SIZE",
    "EntryRecord",
    "LogHeight",
    "LogRecord",
    "ReceiptRecord",
    "RejectedRecord",
    "Source",
    "VersionVectorRecord",
    "check_peer_key",
    "log_key",
    "split_log_key",
    "split_version_vector_key",
    "version_vector_key",
]
