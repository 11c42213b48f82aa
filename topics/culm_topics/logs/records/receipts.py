"""`receipts` and `version-vectors`: how far a peer is known to hold a log.

A receipt follows from a Have, Payload or Done of the peer, or from data that was delivered to it. Version
vectors keep the highest sequence number per peer and log. The rows under the all-zero peer id
(`HEIGHTS_PEER_ID`) are the log heights of the deployment. Readers compute a peer's lag as the difference of
the two, so one growing log rewrites one row.
"""

from typing import Annotated

from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import HEIGHTS_PEER_ID, PUBLIC_KEY_SIZE, check_peer_key
from culm_topics.records.kinds import counted, named, rule, sized

MAX_LOG_HEIGHTS = 50_000
"""Limit of rows in one record: at most 53 bytes each, so a full record is below the topic's limit."""

LogHeight = tuple[Annotated[bytes, sized(PUBLIC_KEY_SIZE)], int, int]
"""(public_key, log_id, seq_num): the peer holds this log up to this sequence number."""

_Height = Annotated[LogHeight, named("public_key", "log_id", "seq_num"), rule("log-height")]


@record("receipts", "entries that a peer is known to hold. Key: peer id (32 bytes).")
class ReceiptRecord(Record):
    """Value of `receipts`; its key is the peer's id. At most `MAX_LOG_HEIGHTS` rows: writers split."""

    log_heights: Annotated[tuple[_Height, ...], counted(MAX_LOG_HEIGHTS)]


def decode_receipt(key: bytes | None, value: bytes | None) -> tuple[bytes, ReceiptRecord]:
    """Return (peer id, receipt) of a record of `receipts`. Raises `RecordError`."""
    peer_id = check_peer_key(key)
    if peer_id == HEIGHTS_PEER_ID:
        raise RecordError("receipts: the all-zero peer id is reserved for the log heights")
    return peer_id, ReceiptRecord.decode(value)


@record(
    "version-vectors",
    "the highest sequence number that a peer holds of a log. Key: peer id, "
    "public key, log id (72 bytes); under the all-zero peer id the log heights.",
)
class VersionVectorRecord(Record):
    """Value of `version-vectors`; its key is peer id, public key and log id (72 bytes)."""

    seq_num: int
