"""The retrieval hint that this deployment writes: the position of a message in `sds.messages`."""

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
    """A position in `sds.messages`, and the check bytes of the message that should be there."""

    partition: int
    offset: int
    check: bytes

    @classmethod
    def of(cls, partition: int, offset: int, wire: bytes) -> "StoreHint":
        """Return the hint of the message `wire` at that position."""
        return cls(partition, offset, check_of(wire))

    @classmethod
    def of_index(cls, row: SdsIndexRecord) -> "StoreHint":
        """Return the hint of a message from its row of the index."""
        return cls(row.partition, row.offset, row.check)

    def encode(self) -> bytes:
        """Return the 17 bytes. Raises `RecordError` for a position that no record can have."""
        require(0 <= self.partition <= MAX_PARTITION, RecordError, "hint: the partition is out of range")
        require(0 <= self.offset <= MAX_OFFSET, RecordError, "hint: the offset is out of range")
        return _LAYOUT.pack(_MARK, self.partition, self.offset, self.check)

    @classmethod
    def parse(cls, hint: bytes | None) -> "StoreHint | None":
        """Return the position that a hint names, or None if it is not a hint of this form."""
        if hint is None or len(hint) != HINT_SIZE or hint[0] != _MARK:
            return None
        _, partition, offset, check = _LAYOUT.unpack(hint)
        if partition > MAX_PARTITION or offset > MAX_OFFSET:
            return None
        return cls(partition, offset, check)
