"""The state of a shard: fields, and the pieces of large operands whose last piece is missing.

Blobs are stored by name; the first byte of a name is the kind of its blob.

Fields of 256 neighbouring objects share one blob. A call on Spark's state costs far more than the bytes it
moves, and objects written together are mostly neighbours: a diff contains whole blocks, a writer the next
sequence numbers. A blob is a CBOR map of the rest of a store key (9 bytes) to [value, seen]. A large value
has blobs of its own, and so has any but a small one if the blob is full: each change of a field writes its
blob whole. The number of its blobs takes the value's place.

The shard of a partition of `chotki.fields` stores the pieces of open operands, and the counting of epochs
knows only their numbers. Both apply `OpenOperands` to the same rows, so they agree, without a message between
them, on which operands are whole. A sync counts only if all of its operands are.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

import cbor2

from culm_streaming.stateful.job_state import JobState, Variable

BLOBS: Final[Variable[bytes]] = Variable("blobs", "name binary")
OBJECTS_BITS: Final = 8
LARGE_BYTES: Final = 256 * 1024
"""A value with more bytes has blobs of its own."""
SMALL_BYTES: Final = 1024
"""A value with at most this many bytes is in the blob of its neighbours, also if that is full."""
FULL_BYTES: Final = 1024 * 1024
"""A blob with more bytes of values is full."""
_BLOB_BYTES: Final = 2 * 1024 * 1024
_NAME: Final = b"F"
_LARGE: Final = b"L"
_OFFSET_BITS: Final = 12
_PRO_BITS: Final = _OFFSET_BITS + OBJECTS_BITS
_NAMES: Final = b"P"
_PIECE: Final = b"Q"


class Kept(NamedTuple):
    """A stored field: its merged value, and what was merged into it, or None if unknown."""

    value: bytes
    seen: bytes | None


class FieldBucket:
    """The fields of one blob; `flush` writes it if a field was put."""

    __slots__ = ("_bytes", "_fields", "_is_changed", "_name", "_state", "keys")

    def __init__(self, state: JobState, name: bytes, keys: list[bytes]) -> None:
        blob = state.load(BLOBS, name)
        self._state = state
        self._name = name
        self._fields: dict[bytes, tuple[bytes | int, bytes | None]] = (
            {} if blob is None else cbor2.loads(blob)
        )
        self._bytes = sum(len(value) for value, _ in self._fields.values() if isinstance(value, bytes))
        self._is_changed = False
        self.keys = keys
        """The store keys for which it was opened, in order."""

    def get(self, key: bytes) -> Kept | None:
        """Return the field of a store key of this blob, or None."""
        stored = self._fields.get(key[9:])
        if stored is None:
            return None
        value, seen = stored
        if isinstance(value, int):
            value = b"".join(self._large(key, number) for number in range(value))
        return Kept(value, seen)

    def put(self, key: bytes, kept: Kept) -> None:
        """Store a field of this blob."""
        former, _ = self._fields.get(key[9:], (b"", None))
        self._bytes -= len(former) if isinstance(former, bytes) else 0
        value: bytes | int = kept.value
        size = len(kept.value)
        if size > LARGE_BYTES or (size > SMALL_BYTES and self._bytes + size > FULL_BYTES):
            value = -(-size // _BLOB_BYTES)
            for number in range(value):
                start = number * _BLOB_BYTES
                self._state.save(BLOBS, _blob(key, number), kept.value[start : start + _BLOB_BYTES])
        else:
            self._bytes += size
        if isinstance(former, int):
            for number in range(value if isinstance(value, int) else 0, former):
                self._state.save(BLOBS, _blob(key, number), None)
        self._fields[key[9:]] = value, kept.seen
        self._is_changed = True

    def _large(self, key: bytes, number: int) -> bytes:
        blob = self._state.load(BLOBS, _blob(key, number))
        assert blob is not None, "a large value has its blobs"
        return blob

    def flush(self) -> None:
        """Write the blob if it has changed."""
        if self._is_changed:
            self._state.save(BLOBS, self._name, cbor2.dumps(self._fields))
            self._is_changed = False


def _blob(key: bytes, number: int) -> bytes:
    return _LARGE + key + number.to_bytes(4, "big")


def open_buckets(state: JobState, keys: Iterable[bytes]) -> Iterator[FieldBucket]:
    """Yield the blobs of these keys, each with its keys. Only one is in memory at a time: flush it."""
    bucket: list[bytes] = []
    name = last = b""
    for key in sorted(keys):
        if key > last:
            if bucket:
                yield FieldBucket(state, name, bucket)
                bucket = []
            number = int.from_bytes(key[9:17], "big") >> _PRO_BITS
            name = _NAME + key[1:9] + number.to_bytes(8, "big")
            # The greatest key of the blob: its lowest bits and its letter are all ones.
            last = key[:9] + ((number + 1 << _PRO_BITS) - 1).to_bytes(8, "big") + b"\xff"
        bucket.append(key)
    if bucket:
        yield FieldBucket(state, name, bucket)


class PieceArrival(Enum):
    """The effect of a piece on its operand."""

    OPEN = auto()
    WHOLE = auto()
    """It is the last piece."""
    LOST = auto()
    """Pieces before it are missing: the operand never becomes whole."""


class OpenOperands:
    """The open operands of one partition, oldest first, with the number of pieces received of each.

    Beyond `limit` the oldest are given up: the sessions of most of them have ended in the middle of one.
    """

    __slots__ = ("_limit", "counts", "given_up")

    def __init__(self, counts: Mapping[bytes, int], limit: int) -> None:
        self.counts = dict(counts)
        self.given_up: dict[bytes, int] = {}
        """Operands that never became whole, by name, with the number of pieces received of each."""
        self._limit = limit

    def take(self, name: bytes, piece: int, pieces: int) -> PieceArrival:
        """Register the next piece of the partition."""
        count = self.counts.pop(name, None)
        if piece != count:
            if count is not None:
                self.given_up[name] = count
            if piece:
                return PieceArrival.LOST
        if piece + 1 == pieces:
            return PieceArrival.WHOLE
        self.counts[name] = piece + 1
        while len(self.counts) > self._limit:
            oldest = next(iter(self.counts))
            self.given_up[oldest] = self.counts.pop(oldest)
        return PieceArrival.OPEN


class KeptPieces:
    """The pieces of open operands in a shard's state, each in a blob of its own."""

    __slots__ = ("_operands", "_state")

    def __init__(self, state: JobState, limit: int) -> None:
        self._state = state
        blob = state.load(BLOBS, _NAMES)
        kept: dict[bytes, int | list[bytes]] = {} if blob is None else cbor2.loads(blob)
        counts = {}
        for name, pieces in kept.items():
            counts[name] = pieces if isinstance(pieces, int) else len(pieces)
            if isinstance(pieces, list):
                # An earlier format stored the pieces themselves here.
                for number, piece in enumerate(pieces):
                    state.save(BLOBS, _piece_blob(name, number), piece)
        self._operands = OpenOperands(counts, limit)

    def take(self, name: bytes, piece: int, pieces: int, value: bytes) -> bytes | None:
        """Add the next piece. Returns the operand if this is its last piece."""
        arrival = self._operands.take(name, piece, pieces)
        for lost, count in self._operands.given_up.items():
            for number in range(count):
                self._state.save(BLOBS, _piece_blob(lost, number), None)
        self._operands.given_up.clear()
        if arrival is PieceArrival.OPEN:
            self._state.save(BLOBS, _piece_blob(name, piece), value)
        if arrival is not PieceArrival.WHOLE:
            return None
        return b"".join([*(self._taken(_piece_blob(name, number)) for number in range(piece)), value])

    def save(self) -> None:
        """Store which operands are open."""
        counts = self._operands.counts
        self._state.save(BLOBS, _NAMES, cbor2.dumps(counts) if counts else None)

    def _taken(self, blob: bytes) -> bytes:
        piece = self._state.load(BLOBS, blob)
        assert piece is not None, "an open operand has its pieces"
        self._state.save(BLOBS, blob, None)
        return piece


def _piece_blob(name: bytes, number: int) -> bytes:
    return _PIECE + name + number.to_bytes(4, "big")
