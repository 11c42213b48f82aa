"""Fields of `chotki.state` that are too large for one record: their pieces, and how readers join them.

A value of more than `MAX_WHOLE_BYTES` is stored in numbered pieces, followed by a head under the field's own
key. The key of a piece contains the digest of the whole value. So a new value never overwrites pieces that a
reader may still need, and compaction keeps all pieces of the value that the last head names. Tombstones
remove the pieces of the previous value once the new head is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple

from culm_models.chotki.ids import KEY_SIZE
from culm_topics.chotki.records.keys import is_field_key
from culm_topics.chotki.records.shape import Vector
from culm_topics.chotki.records.state import FieldRecord
from culm_topics.errors import RecordError
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import sized
from culm_topics.records.shape import FORMAT

MAX_WHOLE_BYTES: Final = 2 * 1024 * 1024
"""Limit of a value in a record of its own; the rest of the record is for the seen vector."""
STATE_PIECE_BYTES: Final = 3 * 1024 * 1024
MAX_SEEN_BYTES: Final = 15 * 128 * 1024
"""Limit of a seen vector; a longer one is left out: the field is then sent to peers that may have it."""
DIGEST_SIZE: Final = 16
_NUMBER_SIZE: Final = 4
_PIECE_KEY_SIZE: Final = KEY_SIZE + DIGEST_SIZE + _NUMBER_SIZE
_HEAD_START: Final = bytes([0x80 + 3, FORMAT, 0x80 + 2])
_NAME = "chotki.state"


class FieldPieces(NamedTuple):
    """Location of a value: the digest in the keys of its pieces, and their number."""

    digest: Annotated[bytes, sized(DIGEST_SIZE)]
    pieces: int


@record(
    _NAME,
    "Key: the field's. The value is too large for one record and is stored in pieces.",
    rule="chotki-field-head",
)
class FieldHead(Record):
    """A field whose value is in pieces; `seen` as in `FieldRecord`."""

    value: Annotated[FieldPieces, "the first 16 bytes of BLAKE2b"]
    seen: Vector | None = None


@record(
    _NAME,
    "Key: the field's, the digest of its value, the number of the piece, u32 from 0. No value: removed.",
    rule="chotki-piece",
)
class PieceRecord(Record):
    """A piece of a field that is too large for one record."""

    piece: bytes


def is_piece_key(key: bytes) -> bool:
    """Whether it is the key of a piece of a field."""
    return len(key) == _PIECE_KEY_SIZE and is_field_key(key[:KEY_SIZE])


def field_records(key: bytes, value: bytes, seen: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of the records of a field, in the order in which they are written."""
    if seen is not None and len(seen) > MAX_SEEN_BYTES:
        seen = None
    if len(value) <= MAX_WHOLE_BYTES:
        yield key, FieldRecord(value, seen).encode()
        return
    keys = piece_keys(key, value)
    for number, piece_key in enumerate(keys):
        start = number * STATE_PIECE_BYTES
        yield piece_key, PieceRecord(value[start : start + STATE_PIECE_BYTES]).encode()
    yield key, FieldHead(FieldPieces(_digest(value), len(keys)), seen).encode()


def piece_keys(key: bytes, value: bytes) -> list[bytes]:
    """Return the keys of the pieces of a field with this value; empty if it fits into one record."""
    if len(value) <= MAX_WHOLE_BYTES:
        return []
    prefix = key + _digest(value)
    count = -(-len(value) // STATE_PIECE_BYTES)
    return [prefix + number.to_bytes(_NUMBER_SIZE, "big") for number in range(count)]


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=DIGEST_SIZE).digest()


@dataclass(slots=True)
class _Pieces:
    offset: int
    by_number: dict[int, bytes] = field(default_factory=dict)


class FieldJoiner:
    """Joins the fields of one partition from its records, which are taken in order.

    A head may come before its pieces: a micro-batch that is repeated writes the pieces again, and compaction
    then removes the first ones.
    """

    __slots__ = ("_heads", "_pieces")

    def __init__(self) -> None:
        self._heads: dict[bytes, tuple[FieldHead, int]] = {}
        self._pieces: dict[bytes, _Pieces] = {}
        """By key and digest of the field."""

    @property
    def incomplete(self) -> Iterable[bytes]:
        """The keys of fields whose head was read, but not all of its pieces."""
        return self._heads.keys()

    @property
    def held_from(self) -> int | None:
        """The offset of the first record held here; a reader that starts again must begin there."""
        offsets = [offset for _, offset in self._heads.values()]
        return min([*offsets, *(pieces.offset for pieces in self._pieces.values())], default=None)

    def take(self, offset: int, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
        """Add the next record other than an epoch mark; a tombstone has an empty value.

        Returns the key and value of a whole record: this one, or the field that it completes. Raises
        `RecordError` for a malformed piece or head.
        """
        if is_piece_key(key):
            prefix = key[:-_NUMBER_SIZE]
            if not value:
                self._pieces.pop(prefix, None)
                return None
            piece = PieceRecord.decode(value).piece
            pieces = self._pieces.setdefault(prefix, _Pieces(offset))
            pieces.by_number[int.from_bytes(key[-_NUMBER_SIZE:], "big")] = piece
            return self._joined(key[:KEY_SIZE])
        self._heads.pop(key, None)
        if value.startswith(_HEAD_START) and is_field_key(key):
            self._heads[key] = FieldHead.decode(value), offset
            return self._joined(key)
        return key, value

    def end_epoch(self) -> None:
        """Drop pieces without a head at an epoch mark: their value was never finished."""
        named = {key + head.value.digest for key, (head, _) in self._heads.items()}
        self._pieces = {prefix: pieces for prefix, pieces in self._pieces.items() if prefix in named}

    def _joined(self, key: bytes) -> tuple[bytes, bytes] | None:
        head, _ = self._heads.get(key, (None, 0))
        if head is None:
            return None
        pieces = self._pieces.get(key + head.value.digest)
        if pieces is None or len(pieces.by_number) < head.value.pieces:
            return None
        value = b"".join(piece for _, piece in sorted(pieces.by_number.items()))
        del self._heads[key], self._pieces[key + head.value.digest]
        if _digest(value) != head.value.digest:
            raise RecordError(f"{_NAME}: the pieces of {key.hex()} are not those of its head")
        return key, FieldRecord(value, head.seen).encode()
