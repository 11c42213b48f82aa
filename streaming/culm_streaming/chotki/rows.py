"""The rows between the packing of records and the shards: bytes, with their place in the input.

Rows of one shard are processed in the order of the input (topic, partition, offset), so that a repeated
micro-batch gives the same result.
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
    """An operand to merge into a field: key, bare value, and its origin.

    An operand of a packet names the entry of its block's vector that covers it (`src`, `pro`). An operand of
    a diff names the session (`origin`), whose vectors of blocks cover it, and may be only a piece.
    """

    key: bytes
    value: bytes
    src: int | None
    pro: int | None
    origin: bytes | None
    piece: int = 0
    pieces: int = 1
    compat: Compat = Compat.DEFAULT


class VectorRow(NamedTuple):
    """An update of a block's vector: its key, the entries (TLV), and their session."""

    key: bytes
    vector: bytes
    origin: bytes | None


class Run(NamedTuple):
    """An unbroken run of packets of one source, which counts once `after` is reached, and raises it to `pro`.

    `partition` and `offset` are those of its first record.
    """

    src: int
    after: int
    pro: int
    origin: bytes
    partition: int
    offset: int


class CommitRow(NamedTuple):
    """A sync, which counts for each source once all of `chotki.fields` before `ends` is merged."""

    vector: bytes
    after: bytes
    ends: tuple[tuple[int, int], ...]
    origin: bytes
    partition: int
    offset: int


class MarkRow(NamedTuple):
    """The extent of a batch: everything of this source and partition below `offset`.

    `written_ms` is the latest timestamp of its records in Kafka.
    """

    source: int
    partition: int
    offset: int
    written_ms: int


class PieceRow(NamedTuple):
    """A piece of an operand, from 0, and its place; `name` is the field's key and the session's."""

    name: bytes
    piece: int
    pieces: int
    partition: int
    offset: int


Refused = tuple[bytes, bytes]
"""Key and value of a record of `rejected`."""


@dataclass(slots=True)
class ShardRows:
    """The rows of one batch of records for one shard."""

    operands: list[Operand] = field(default_factory=list)
    vectors: list[VectorRow] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def pack(self) -> bytes:
        """Return the rows as bytes for a worker of this micro-batch; they are never stored."""
        # Plain tuples: serialising named ones is several times slower.
        rows = ([tuple(row) for row in self.operands], [tuple(row) for row in self.vectors], self.refused)
        return pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)


@dataclass(slots=True)
class EpochRows(PackedRows):
    """The rows of one batch of records for the counting of epochs."""

    runs: list[Run] = field(default_factory=list)
    commits: list[CommitRow] = field(default_factory=list)
    marks: list[MarkRow] = field(default_factory=list)
    pieces: list[PieceRow] = field(default_factory=list)


Place = tuple[int, int, int]
"""(source, partition, first offset) of a batch."""


def unpack_shard(packed: list[tuple[Place, bytes]]) -> ShardRows:
    """Return all rows of a shard, in the order of the input."""
    rows = ShardRows()
    for blob in _in_order(packed):
        operands, vectors, refused = pickle.loads(blob)
        rows.operands += map(Operand._make, operands)
        rows.vectors += map(VectorRow._make, vectors)
        rows.refused += refused
    return rows


def unpack_epoch(packed: list[tuple[Place, bytes]]) -> EpochRows:
    """Return all rows of the counting of epochs, in the order of the input."""
    return EpochRows.unpack(_in_order(packed))


def _in_order(packed: list[tuple[Place, bytes]]) -> list[bytes]:
    return [blob for _, blob in sorted(packed, key=lambda row: row[0])]
