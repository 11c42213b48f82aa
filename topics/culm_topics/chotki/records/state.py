"""`chotki.state`: merged fields, vectors of blocks, and marks of complete epochs (reference 9.1, 9.2).

The key tells the kind of a value: `4f…` a field, `56…` a block's vector, `45` and a partition an epoch mark.
"""

from typing import Annotated

from culm_topics.chotki.records.shape import SomeEnds, Vector
from culm_topics.records.declare import Record, record


@record("chotki.state", "Key: 4f, source u64, progress u64, letter.", rule="chotki-field")
class FieldRecord(Record):
    """A field's merged value, bare; `seen` (TLV) is what was merged into it, or None if unknown."""

    value: Annotated[bytes, "bare"]
    seen: Annotated[Vector | None, "the sources merged into it; null: not known completely"] = None


@record(
    "chotki.state",
    "Key: 56, source u64, progress u64 with its low 28 bits set, 56.",
    rule="chotki-block-vector",
)
class BlockVectorRecord(Record):
    """The vector of a block (TLV)."""

    vector: Vector


@record(
    "chotki.state", "Key: 45, partition u32. All records of an epoch precede its marks.", rule="chotki-epoch"
)
class EpochRecord(Record):
    """Mark at the end of an epoch: in each partition, the epoch's records are before the partition's mark.

    `vector` (TLV) is the global one. `packets`, `fields` and `commits` are the offsets, by partition of these
    topics, up to which everything is in the state.
    """

    epoch: int
    vector: Annotated[Vector, "the global vector"]
    packets: Annotated[SomeEnds, "the state includes every record before these offsets"]
    fields: SomeEnds
    commits: SomeEnds
