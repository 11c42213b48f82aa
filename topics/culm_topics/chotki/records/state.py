"""`chotki.state`: merged fields, vectors of blocks, and marks that an epoch is complete (reference 9.1, 9.2).

What a value is, its key says: `4f…` a field, `56…` a block's vector, `45` and a partition an epoch mark.
"""

from dataclasses import dataclass

from culm_topics.chotki.records.shape import Ends, ends_size, read_ends, vector_size
from culm_topics.records.shape import FORMAT, bytes_item, bytes_size, check_size, dump, load_array, uint_size

_NAME = "chotki.state"
_FIELD_HEAD = bytes([0x80 + 3, FORMAT])


@dataclass(frozen=True, slots=True)
class FieldRecord:
    """A field's merged value, bare; `seen` (TLV) is what was merged into it, None where that is not known."""

    value: bytes
    seen: bytes | None = None

    def encode(self) -> bytes:
        """`[1, value, seen]`."""
        # The job writes more of these than of all others: put together by hand they cost far less.
        return _FIELD_HEAD + bytes_item(self.value) + bytes_item(self.seen)

    @staticmethod
    def decode(value: bytes | None) -> "FieldRecord":
        """The record in `value`; `RecordError` says what is wrong with it. The field is not looked at."""
        _, field, seen = load_array(value, _NAME, 3)
        size = 2 + bytes_size(_NAME, "value", field)
        size += 1 if seen is None else vector_size(_NAME, "seen", seen)
        check_size(value, size, _NAME)
        return FieldRecord(field, seen)


@dataclass(frozen=True, slots=True)
class BlockVectorRecord:
    """The vector of a block (TLV)."""

    vector: bytes

    def encode(self) -> bytes:
        """`[1, vector]`."""
        return dump(FORMAT, self.vector)

    @staticmethod
    def decode(value: bytes | None) -> "BlockVectorRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, vector = load_array(value, _NAME, 2)
        check_size(value, 2 + vector_size(_NAME, "vector", vector), _NAME)
        return BlockVectorRecord(vector)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Everything of an epoch lies before this mark, in each partition before its own.

    `vector` (TLV) is the global one. `packets`, `fields` and `commits`: up to which offset of each partition
    of these topics everything is in the state.
    """

    epoch: int
    vector: bytes
    packets: Ends
    fields: Ends
    commits: Ends

    def encode(self) -> bytes:
        """`[1, epoch, vector, packets, fields, commits]`, the last three `[[partition, offset], ...]`."""
        return dump(FORMAT, self.epoch, self.vector, self.packets, self.fields, self.commits)

    @staticmethod
    def decode(value: bytes | None) -> "EpochRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, epoch, vector, packets, fields, commits = load_array(value, _NAME, 6)
        size = (
            2
            + uint_size(_NAME, "epoch", epoch)
            + vector_size(_NAME, "vector", vector)
            + ends_size(_NAME, "packets", packets)
            + ends_size(_NAME, "fields", fields)
            + ends_size(_NAME, "commits", commits)
        )
        check_size(value, size, _NAME)
        return EpochRecord(epoch, vector, read_ends(packets), read_ends(fields), read_ends(commits))
