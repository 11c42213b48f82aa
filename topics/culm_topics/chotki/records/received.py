"""Records of edges and writers: live packets, diffs, and commits of complete diffs (reference 9.1, 9.2)."""

from collections.abc import Iterator
from typing import Annotated, Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id
from culm_topics.chotki.records.shape import RecordOrigin, SomeCompat, SomeEnds, Vector
from culm_topics.records.declare import Record, record, spread
from culm_topics.records.kinds import sized_between
from culm_topics.records.shape import require, string_size

MAX_PACKET_BYTES: Final = 3 * 1024 * 1024
"""The largest live packet: its record fits into a batch of Kafka."""


MAX_PIECE_BYTES: Final = 3 * 1024 * 1024
"""A larger operand is split into pieces."""
MAX_PIECES: Final = 1_024
_FIELDS = "chotki.fields"


@record("chotki.packets", "a live packet as received. Key: the source of its id, u64.")
class PacketRecord(Record):
    """Value of `chotki.packets`; its key is the source of the packet's id.

    `after` is the progress of that source that the connection had reached before: the packet counts once the
    deployment has reached it. `compat` tells how the packet is read: a value in it may not parse by default.
    """

    origin: Annotated[RecordOrigin, spread]
    after: Annotated[int, "progress of the source that the packet follows"]
    packet: Annotated[bytes, sized_between(0, MAX_PACKET_BYTES)]
    compat: SomeCompat = Compat.DEFAULT


@record(
    _FIELDS,
    "an operand of a diff. Key: the store key of a field, or of a block's vector.",
    layout=("origin", "piece", "pieces", "operand", "compat"),
)
class OperandRecord(Record):
    """Value of `chotki.fields`; its key is the store key of a field, or of a block's vector.

    `operand` is a bare value to merge there, or piece `piece` of `pieces` of one (counted from 0). With
    `Compat.GO` it need not parse as its type.
    """

    origin: Annotated[RecordOrigin, spread]
    operand: Annotated[bytes, sized_between(0, MAX_PIECE_BYTES), "a bare value, as in D"]
    piece: Annotated[int, "from 0"] = 0
    pieces: Annotated[int, "number of pieces; 1: the operand is complete"] = 1
    compat: SomeCompat = Compat.DEFAULT

    def verify(self) -> None:
        """Raise `RecordError` if the number of the piece is out of range."""
        require(self.piece < self.pieces <= MAX_PIECES, _FIELDS, "no such piece")

    @staticmethod
    def of(
        origin: RecordOrigin, operand: bytes, compat: Compat = Compat.DEFAULT
    ) -> "Iterator[OperandRecord]":
        """Yield the records of an operand of any size. Raises `RecordError` if it needs too many pieces."""
        pieces = max(1, -(-len(operand) // MAX_PIECE_BYTES))
        require(pieces <= MAX_PIECES, _FIELDS, f"an operand of {len(operand)} bytes")
        for piece in range(pieces):
            start = piece * MAX_PIECE_BYTES
            part = operand[start : start + MAX_PIECE_BYTES]
            yield OperandRecord(origin, part, piece, pieces, compat)


class OperandReader:
    """Reads consecutive values of `chotki.fields`; fast if they begin as the previous one did.

    Values from one session are alike up to the operand, and this beginning is most of what must be checked.
    """

    __slots__ = ("_bringer", "_prefix")

    def __init__(self) -> None:
        self._prefix = b""
        self._bringer = RecordOrigin(b"", 0, 0)

    def read(self, value: bytes | None) -> tuple[RecordOrigin, bytes, int, int, Compat]:
        """Return the origin and all other fields, as `OperandRecord.decode` does. Raises `RecordError`."""
        at = len(self._prefix)
        if value is not None and at and value.startswith(self._prefix):
            rest = len(value) - at
            # A byte string up to the end, with a head in the shortest form, of one byte or two.
            if 1 <= rest <= 24 and value[at] == 0x40 + rest - 1:
                return self._bringer, value[at + 1 :], 0, 1, Compat.DEFAULT
            if 26 <= rest <= 257 and value[at] == 0x58 and value[at + 1] == rest - 2:
                return self._bringer, value[at + 2 :], 0, 1, Compat.DEFAULT
        record = OperandRecord.decode(value)
        if value is not None and record.pieces == 1 and record.compat is Compat.DEFAULT:
            self._prefix = value[: len(value) - string_size(len(record.operand))]
            self._bringer = record.origin
        return record.origin, record.operand, record.piece, record.pieces, record.compat


@record("chotki.commits", "a complete diff. Key: edge (32 bytes) and session, u64.")
class CommitRecord(Record):
    """Value of `chotki.commits`; its key is the session's.

    `t` is the id of the sync. `vector` (TLV) is the progress to which the sync takes each of its sources,
    `after` (TLV) the progress from which it starts. `ends` are the offsets in `chotki.fields` after
    everything that the connection has produced.
    """

    origin: Annotated[RecordOrigin, spread]
    t: Annotated[Id, spread, "T, the id of the sync"]
    vector: Annotated[Vector, "progress of each source after the diff"]
    after: Annotated[Vector, "progress of each source before the diff"]
    ends: Annotated[SomeEnds, "of chotki.fields"]
