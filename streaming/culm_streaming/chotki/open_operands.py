"""Large operands of diffs whose last piece has not come.

The shard of a partition of `chotki.fields` keeps their pieces, and the counting of epochs knows only that
they came. Both apply `OpenOperands` to the same rows, so they agree, without a message between them, on which
operands are whole. A sync counts only if all of its operands are.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

import cbor2

from culm_streaming.chotki.state import BLOBS
from culm_streaming.stateful.job_state import JobState

_NAMES: Final = b"P"
_PIECE: Final = b"Q"


class Arrival(Enum):
    """What a piece is to its operand."""

    OPEN = auto()
    WHOLE = auto()
    """It is the last one."""
    LOST = auto()
    """Pieces before it are missing: the operand never becomes whole."""


class OpenOperands:
    """The open operands of one partition, oldest first, with the number of pieces that came of each.

    Beyond `limit` the oldest are given up: the sessions of most of those have ended in the middle of one.
    """

    __slots__ = ("_limit", "counts", "given_up")

    def __init__(self, counts: Mapping[bytes, int], limit: int) -> None:
        self.counts = dict(counts)
        self.given_up: dict[bytes, int] = {}
        """By name: operands that never became whole, with the number of pieces that came of each."""
        self._limit = limit

    def take(self, name: bytes, piece: int, pieces: int) -> Arrival:
        """The next piece of the partition."""
        count = self.counts.pop(name, None)
        if piece != count:
            if count is not None:
                self.given_up[name] = count
            if piece:
                return Arrival.LOST
        if piece + 1 == pieces:
            return Arrival.WHOLE
        self.counts[name] = piece + 1
        while len(self.counts) > self._limit:
            oldest = next(iter(self.counts))
            self.given_up[oldest] = self.counts.pop(oldest)
        return Arrival.OPEN


class KeptPieces:
    """The pieces of open operands in a shard's state, each a blob of its own."""

    __slots__ = ("_operands", "_state")

    def __init__(self, state: JobState, limit: int) -> None:
        self._state = state
        blob = state.load(BLOBS, _NAMES)
        kept: dict[bytes, int | list[bytes]] = {} if blob is None else cbor2.loads(blob)
        counts = {}
        for name, pieces in kept.items():
            counts[name] = pieces if isinstance(pieces, int) else len(pieces)
            if isinstance(pieces, list):
                # An earlier format kept the pieces themselves here.
                for number, piece in enumerate(pieces):
                    state.save(BLOBS, _blob(name, number), piece)
        self._operands = OpenOperands(counts, limit)

    def take(self, name: bytes, piece: int, pieces: int, value: bytes) -> bytes | None:
        """The next piece; returns the operand if this is its last one."""
        arrival = self._operands.take(name, piece, pieces)
        for lost, count in self._operands.given_up.items():
            for number in range(count):
                self._state.save(BLOBS, _blob(lost, number), None)
        self._operands.given_up.clear()
        if arrival is Arrival.OPEN:
            self._state.save(BLOBS, _blob(name, piece), value)
        if arrival is not Arrival.WHOLE:
            return None
        return b"".join([*(self._taken(_blob(name, number)) for number in range(piece)), value])

    def save(self) -> None:
        """Keep which operands are open."""
        counts = self._operands.counts
        self._state.save(BLOBS, _NAMES, cbor2.dumps(counts) if counts else None)

    def _taken(self, blob: bytes) -> bytes:
        piece = self._state.load(BLOBS, blob)
        assert piece is not None, "an open operand has its pieces"
        self._state.save(BLOBS, blob, None)
        return piece


def _blob(name: bytes, number: int) -> bytes:
    return _PIECE + name + number.to_bytes(4, "big")
