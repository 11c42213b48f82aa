"""Base of the records of all topics: keys and values, each with `encode` and `decode`.

- `declare`: a record is a class with annotated items; its `encode`, its `decode` and its CDDL are generated.
- `kinds`: the annotations of items; `cddl`: the rules of a topic; `shape`: the checks that both use.
- `keys`: log key, peer key, version vector key.
- `rejected`: bytes that were refused, from any topic.
- `chunks`: data larger than a record, cut into chunks and reassembled.

A value is an array whose first item is a format number, encoded in CBOR (in `dag.*` in DAG-CBOR).
A module of `logs.records` has one or two records.
"""

from culm_topics.records.keys import (
    HEIGHTS_PEER_ID,
    LOG_KEY_SIZE,
    PEER_ID_SIZE,
    PUBLIC_KEY_SIZE,
    YAMF_LOG_KEY_SIZE,
    check_peer_key,
    key_partition,
    log_key,
    split_flavoured_log_key,
    split_log_key,
    split_version_vector_key,
    version_vector_key,
)
from culm_topics.records.rejected import (
    MAX_REJECTED_BYTES,
    MAX_REJECTED_DETAIL,
    RejectedRecord,
    Source,
    reject_malformed,
    rejection,
)

__all__ = [
    "HEIGHTS_PEER_ID",
    "LOG_KEY_SIZE",
    "MAX_REJECTED_BYTES",
    "MAX_REJECTED_DETAIL",
    "PEER_ID_SIZE",
    "PUBLIC_KEY_SIZE",
    "YAMF_LOG_KEY_SIZE",
    "RejectedRecord",
    "Source",
    "check_peer_key",
    "key_partition",
    "log_key",
    "reject_malformed",
    "rejection",
    "split_flavoured_log_key",
    "split_log_key",
    "split_version_vector_key",
    "version_vector_key",
]
