"""`receipts`: what a peer is known to hold: from its Have, Payload or Done, or because we delivered it."""

from dataclasses import dataclass

from culm_topics.errors import RecordError
from culm_topics.records.keys import HEIGHTS_PEER_ID, PUBLIC_KEY_SIZE, check_peer_key
from culm_topics.records.shape import (
    FORMAT,
    check_size,
    dump,
    head_size,
    is_uint,
    load_array,
    refuse_item,
    require,
    string_size,
)

MAX_LOG_HEIGHTS = 50_000
"""Rows in one record: at most 53 bytes each, so a full record stays below the topic's message limit."""

LogHeight = tuple[bytes, int, int]
"""(public_key, log_id, seq_num): the peer holds this log up to this sequence number."""


@dataclass(frozen=True, slots=True)
class ReceiptRecord:
    """Value of `receipts`; its key is the peer's id. At most `MAX_LOG_HEIGHTS` rows: writers split."""

    log_heights: tuple[LogHeight, ...]

    def encode(self) -> bytes:
        """`[1, [[public_key, log_id, seq_num], ...]]`."""
        require(len(self.log_heights) <= MAX_LOG_HEIGHTS, "receipts", f"more than {MAX_LOG_HEIGHTS} rows")
        sound = all(len(public_key) == PUBLIC_KEY_SIZE for public_key, _, _ in self.log_heights)
        require(sound, "receipts", f"a public key that is not {PUBLIC_KEY_SIZE} bytes")
        return dump(FORMAT, [list(row) for row in self.log_heights])

    @staticmethod
    def decode(value: bytes | None) -> "ReceiptRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, rows = load_array(value, "receipts", 2)
        if type(rows) is not list or len(rows) > MAX_LOG_HEIGHTS:
            refuse_item("receipts", "log_heights", rows, f"a list of at most {MAX_LOG_HEIGHTS} log heights")
        size = 2 + head_size(len(rows))
        for row in rows:
            if type(row) is not list or len(row) != 3:
                refuse_item("receipts", "a log height", row, "[public_key, log_id, seq_num]")
            public_key, log_id, seq_num = row
            if type(public_key) is not bytes or len(public_key) != PUBLIC_KEY_SIZE:
                refuse_item("receipts", "public_key", public_key, "32 bytes")
            if not is_uint(log_id) or not is_uint(seq_num):
                refuse_item("receipts", "a log height", row, "two unsigned integers behind the public key")
            size += 1 + string_size(PUBLIC_KEY_SIZE) + head_size(log_id) + head_size(seq_num)
        check_size(value, size, "receipts")
        return ReceiptRecord(tuple([(row[0], row[1], row[2]) for row in rows]))


def decode_receipt(key: bytes | None, value: bytes | None) -> tuple[bytes, ReceiptRecord]:
    """(peer id, receipt) of a record of `receipts`. Raises `RecordError`."""
    peer_id = check_peer_key(key)
    if peer_id == HEIGHTS_PEER_ID:
        raise RecordError("receipts: the all-zero peer id stands for the log heights, no peer has it")
    return peer_id, ReceiptRecord.decode(value)
