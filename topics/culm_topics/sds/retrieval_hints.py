"""The retrieval hint that this deployment writes: where in `sds.messages` a message lies.

17 bytes: 0x4B, the partition as u32, the offset as u64, most significant byte first, and the first 4 bytes of
the SHA-256 of the message. Others take it for opaque bytes (a hint of Waku's has 32). Peers hand hints back
to us, so one is a proposal: `SdsStore` looks there, checks, and otherwise asks the index.
"""

import struct
from dataclasses import dataclass
from typing import Final

from culm_models.errors import require
from culm_topics.errors import RecordError
from culm_topics.sds.records import CHECK_SIZE, MAX_OFFSET, MAX_PARTITION, SdsIndexRecord, check_of

HINT_SIZE: Final = 17
_MARK: Final = 0x4B
_LAYOUT: Final = struct.Struct(f">BIQ{CHECK_SIZE}s")
assert _LAYOUT.size == HINT_SIZE


@dataclass(frozen=True, slots=True)
class StoreHint:
    """A place in `sds.messages`, and the check bytes of the message that should be there."""

    partition: int
    offset: int
    check: bytes

    @classmethod
    def of(cls, partition: int, offset: int, wire: bytes) -> "StoreHint":
        """The hint of the message `wire`, which lies there."""
        return cls(partition, offset, check_of(wire))

    @classmethod
    def of_index(cls, row: SdsIndexRecord) -> "StoreHint":
        """The hint of a message by its row of the index."""
        return cls(row.partition, row.offset, row.check)

    def encode(self) -> bytes:
        """The 17 bytes; `RecordError` for a place that no record can have."""
        require(0 <= self.partition <= MAX_PARTITION, RecordError, "hint: the partition is out of range")
        require(0 <= self.offset <= MAX_OFFSET, RecordError, "hint: the offset is out of range")
        return _LAYOUT.pack(_MARK, self.partition, self.offset, self.check)

    @classmethod
    def parse(cls, hint: bytes | None) -> "StoreHint | None":
        """The place that a hint names; None when it is none of ours."""
        if hint is None or len(hint) != HINT_SIZE or hint[0] != _MARK:
            return None
        _, partition, offset, check = _LAYOUT.unpack(hint)
        if partition > MAX_PARTITION or offset > MAX_OFFSET:
            return None
        return cls(partition, offset, check)
