"""What goes from the packing of records to the shards: rows of bytes, each with its place in the input.

Rows of one shard are taken in the order of the input (topic, partition, offset), so that a micro-batch that
runs again does the same.
"""

import pickle
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_streaming.stateful.packed_rows import PackedRows


class InputTopic(IntEnum):
    """The topics that the job reads."""

    PACKETS = 0
    FIELDS = 1
    COMMITS = 2


TOPICS: Final = {
    InputTopic.PACKETS: "chotki.packets",
    InputTopic.FIELDS: "chotki.fields",
    InputTopic.COMMITS: "chotki.commits",
}
EPOCHS_SHARD: Final = -1
"""The shard that counts for all of them."""


class Operand(NamedTuple):
    """What is merged into one field: key, bare value, and who brought it.

    A packet's says which entry of its block's vector stands for it (`src`, `pro`); of a diff it is the
    session, whose vectors of blocks tell (`bringer`), and whether it is only a piece.
    """

    key: bytes
    value: bytes
    src: int | None
    pro: int | None
    bringer: bytes | None
    piece: int = 0
    pieces: int = 1
    compat: Compat = Compat.DEFAULT


class VectorRow(NamedTuple):
    """A block's vector is raised: its key, the entries (TLV), and the session that it is of."""

    key: bytes
    vector: bytes
    bringer: bytes | None


class Run(NamedTuple):
    """An unbroken run of packets of one source: it counts once `after` is reached, and brings it to `pro`.

    `partition` and `offset` are those of its first record.
    """

    src: int
    after: int
    pro: int
    bringer: bytes
    partition: int
    offset: int


class Commit(NamedTuple):
    """A sync counts, source by source, once all before `ends` of `chotki.fields` is merged."""

    vector: bytes
    after: bytes
    ends: tuple[tuple[int, int], ...]
    bringer: bytes
    partition: int
    offset: int


class Mark(NamedTuple):
    """How far a batch goes: everything of this source and partition below `offset`.

    `written_ms` is when the latest of it was written, by Kafka's records.
    """

    source: int
    partition: int
    offset: int
    written_ms: int


class Piece(NamedTuple):
    """A piece of an operand, from 0, and where it lies; `name` is the field's key and the session's."""

    name: bytes
    piece: int
    pieces: int
    partition: int
    offset: int


Refused = tuple[bytes, bytes]
"""Key and value of a record of `rejected`."""


@dataclass(slots=True)
class ShardRows:
    """What one batch of records has for one shard."""

    operands: list[Operand] = field(default_factory=list)
    vectors: list[VectorRow] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def pack(self) -> bytes:
        """As bytes, for a worker of this micro-batch: they are never kept."""
        # Plain tuples: those with names are written several times as slowly.
        rows = ([tuple(one) for one in self.operands], [tuple(one) for one in self.vectors], self.refused)
        return pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)


@dataclass(slots=True)
class EpochRows(PackedRows):
    """What one batch of records has for the counting of epochs."""

    runs: list[Run] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)


Place = tuple[int, int, int]
"""(source, partition, first offset) of a batch."""


def unpack_shard(packed: list[tuple[Place, bytes]]) -> ShardRows:
    """All rows of a shard, in the order of the input."""
    found = ShardRows()
    for blob in _in_order(packed):
        operands, vectors, refused = pickle.loads(blob)
        found.operands += map(Operand._make, operands)
        found.vectors += map(VectorRow._make, vectors)
        found.refused += refused
    return found


def unpack_epoch(packed: list[tuple[Place, bytes]]) -> EpochRows:
    """All rows of the counting of epochs, in the order of the input."""
    return EpochRows.unpack(_in_order(packed))


def _in_order(packed: list[tuple[Place, bytes]]) -> list[bytes]:
    return [blob for _, blob in sorted(packed, key=lambda one: one[0])]
