"""`chotki.fields` and `chotki.commits`: what a diff brought, and that it is whole (reference 9.1, 9.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id
from culm_topics.chotki.records.shape import (
    Bringer,
    Ends,
    bringer_size,
    compat_items,
    compat_size,
    ends_size,
    read_compat,
    read_ends,
    vector_size,
)
from culm_topics.records.shape import (
    FORMAT,
    bytes_size,
    check_size,
    dump,
    load_array,
    refuse_item,
    require,
    string_size,
    uint_size,
)

MAX_PIECE_BYTES: Final = 3 * 1024 * 1024
"""An operand that is larger travels in pieces."""
MAX_PIECES: Final = 1_024
_FIELDS = "chotki.fields"
_COMMITS = "chotki.commits"


@dataclass(frozen=True, slots=True)
class OperandRecord:
    """Value of `chotki.fields`; its key is the store key of a field, or of a block's vector.

    `operand` is a bare value to merge there, or piece `piece` of `pieces` of one (counted from 0). With
    `Compat.GO` it need not parse as its type.
    """

    bringer: Bringer
    operand: bytes
    piece: int = 0
    pieces: int = 1
    compat: Compat = Compat.DEFAULT

    def encode(self) -> bytes:
        """`[1, edge, peer, session, piece, pieces, operand]`, and `"go"` behind it with `Compat.GO`."""
        require(len(self.operand) <= MAX_PIECE_BYTES, _FIELDS, "an operand that is not in pieces")
        require(0 <= self.piece < self.pieces <= MAX_PIECES, _FIELDS, "no such piece")
        return dump(FORMAT, *self.bringer, self.piece, self.pieces, self.operand, *compat_items(self.compat))

    @staticmethod
    def decode(value: bytes | None) -> "OperandRecord":
        """The record in `value`; `RecordError` says what is wrong with it. The operand is not looked at."""
        _, edge, peer, session, piece, pieces, operand, *more = load_array(value, _FIELDS, 7, optional=1)
        size = (
            2
            + bringer_size(_FIELDS, edge, peer, session)
            + uint_size(_FIELDS, "piece", piece)
            + uint_size(_FIELDS, "pieces", pieces)
            + bytes_size(_FIELDS, "operand", operand)
            + compat_size(_FIELDS, more)
        )
        if not piece < pieces <= MAX_PIECES:
            refuse_item(_FIELDS, "pieces", pieces, f"more than piece, and at most {MAX_PIECES}")
        if len(operand) > MAX_PIECE_BYTES:
            refuse_item(_FIELDS, "operand", operand, f"at most {MAX_PIECE_BYTES} bytes")
        check_size(value, size, _FIELDS)
        return OperandRecord(Bringer(edge, peer, session), operand, piece, pieces, read_compat(more))

    @staticmethod
    def of(bringer: Bringer, operand: bytes, compat: Compat = Compat.DEFAULT) -> "Iterator[OperandRecord]":
        """The records of an operand of any size; `RecordError` for one beyond all pieces."""
        pieces = max(1, -(-len(operand) // MAX_PIECE_BYTES))
        require(pieces <= MAX_PIECES, _FIELDS, f"an operand of {len(operand)} bytes")
        for piece in range(pieces):
            start = piece * MAX_PIECE_BYTES
            part = operand[start : start + MAX_PIECE_BYTES]
            yield OperandRecord(bringer, part, piece, pieces, compat)


class OperandReader:
    """Reads values of `chotki.fields` one behind the other, those that begin as the one before did fast.

    What a session brings begins alike up to the operand, and that is most of what there is to check.
    """

    __slots__ = ("_bringer", "_prefix")

    def __init__(self) -> None:
        self._prefix = b""
        self._bringer = Bringer(b"", 0, 0)

    def read(self, value: bytes | None) -> tuple[Bringer, bytes, int, int, Compat]:
        """The bringer and all other fields, as `OperandRecord.decode` reads them. Raises RecordError."""
        at = len(self._prefix)
        if value is not None and at and value.startswith(self._prefix):
            rest = len(value) - at
            # A byte string to the end, with its head in the shortest form: of one byte, or of two.
            if 1 <= rest <= 24 and value[at] == 0x40 + rest - 1:
                return self._bringer, value[at + 1 :], 0, 1, Compat.DEFAULT
            if 26 <= rest <= 257 and value[at] == 0x58 and value[at + 1] == rest - 2:
                return self._bringer, value[at + 2 :], 0, 1, Compat.DEFAULT
        record = OperandRecord.decode(value)
        if value is not None and record.pieces == 1 and record.compat is Compat.DEFAULT:
            self._prefix = value[: len(value) - string_size(len(record.operand))]
            self._bringer = record.bringer
        return record.bringer, record.operand, record.piece, record.pieces, record.compat


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """Value of `chotki.commits`; its key is the session's.

    `t` is the id of the sync. `vector` (TLV) says how far the sync brings each of its sources, `after` (TLV)
    from where on. `ends`: where in `chotki.fields` everything lies before that the connection has produced.
    """

    bringer: Bringer
    t: Id
    vector: bytes
    after: bytes
    ends: Ends

    def encode(self) -> bytes:
        """`[1, edge, peer, session, src, pro, vector, after, [[partition, offset], ...]]`."""
        return dump(FORMAT, *self.bringer, *self.t, self.vector, self.after, self.ends)

    @staticmethod
    def decode(value: bytes | None) -> "CommitRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, edge, peer, session, src, pro, vector, after, ends = load_array(value, _COMMITS, 9)
        size = (
            2
            + bringer_size(_COMMITS, edge, peer, session)
            + uint_size(_COMMITS, "src", src)
            + uint_size(_COMMITS, "pro", pro)
            + vector_size(_COMMITS, "vector", vector)
            + vector_size(_COMMITS, "after", after)
            + ends_size(_COMMITS, "ends", ends)
        )
        check_size(value, size, _COMMITS)
        return CommitRecord(Bringer(edge, peer, session), Id(src, pro), vector, after, read_ends(ends))
