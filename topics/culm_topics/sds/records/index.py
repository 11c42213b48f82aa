"""`sds.index`: where a message lies in `sds.messages`, for retrieval by its id."""

from dataclasses import dataclass
from hashlib import sha256

from culm_topics.records.shape import (
    FORMAT,
    bytes_size,
    check_size,
    dump,
    head_size,
    load_array,
    refuse_item,
    require,
    uint_size,
)
from culm_topics.sds.records.shape import hint_size, id_size, require_hint, require_id

CHECK_SIZE = 4
MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1
MAX_SIZE = 2**32 - 1
_NAME = "sds.index"


def check_of(wire: bytes) -> bytes:
    """The first 4 bytes of the SHA-256 of a message: whether a record is still the one that was meant."""
    return sha256(wire).digest()[:CHECK_SIZE]


@dataclass(frozen=True, slots=True)
class SdsIndexRecord:
    """Value of `sds.index`; its key is the channel and the message (`index_key`).

    `size` is that of the message's bytes, `check` is `check_of` them, `retrieval_hint` the one of another
    transport's store, as in `sds.messages`.
    """

    partition: int
    offset: int
    lamport_timestamp: int
    sender_id: str
    size: int
    check: bytes
    retrieval_hint: bytes | None = None

    def encode(self) -> bytes:
        """`[1, partition, offset, lamport_timestamp, sender_id, size, check, retrieval_hint]`."""
        require(0 <= self.partition <= MAX_PARTITION, _NAME, "partition is out of range")
        require(0 <= self.offset <= MAX_OFFSET, _NAME, "offset is out of range")
        require(0 <= self.size <= MAX_SIZE, _NAME, "size is out of range")
        require_id(_NAME, "sender_id", self.sender_id, empty=True)
        require(len(self.check) == CHECK_SIZE, _NAME, f"check is not {CHECK_SIZE} bytes")
        require_hint(_NAME, self.retrieval_hint)
        return dump(
            FORMAT,
            self.partition,
            self.offset,
            self.lamport_timestamp,
            self.sender_id,
            self.size,
            self.check,
            self.retrieval_hint,
        )

    @staticmethod
    def decode(value: bytes | None) -> "SdsIndexRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, partition, offset, lamport, sender_id, length, check, hint = load_array(value, _NAME, 8)
        for name, number, most in (
            ("partition", partition, MAX_PARTITION),
            ("offset", offset, MAX_OFFSET),
            ("size", length, MAX_SIZE),
        ):
            if type(number) is not int or not 0 <= number <= most:
                refuse_item(_NAME, name, number, f"a number from 0 to {most}")
        size = (
            2
            + head_size(partition)
            + head_size(offset)
            + uint_size(_NAME, "lamport_timestamp", lamport)
            + id_size(_NAME, "sender_id", sender_id, empty=True)
            + head_size(length)
            + bytes_size(_NAME, "check", check, CHECK_SIZE)
            + hint_size(_NAME, hint)
        )
        check_size(value, size, _NAME)
        return SdsIndexRecord(partition, offset, lamport, sender_id, length, check, hint)
