"""How far a diff is, either way: for those who watch a first sync of many GB (reference 10, 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from culm_models.chotki.ids import BLOCK_MASK, Id


class Progress(NamedTuple):
    """Blocks and bytes that are through, and how many there are in all; 0 bytes in all: nobody knows."""

    blocks_done: int
    blocks_total: int
    bytes_done: int
    bytes_total: int


NO_PROGRESS: Final = Progress(0, 0, 0, 0)


class IncomingProgress:
    """What has come of a peer's diff. The protocol does not say how much there is.

    So the blocks in all are an estimate from both vectors: those that new ids of the peer's sources lie in.
    Bytes are those of D's.
    """

    __slots__ = ("_block", "_blocks", "_bytes", "_expected")

    def __init__(self, expected_blocks: int) -> None:
        self._expected = expected_blocks
        self._blocks = 0
        self._bytes = 0
        self._block: Id | None = None

    @classmethod
    def expected(cls, announced: Mapping[int, int], own: Mapping[int, int]) -> IncomingProgress:
        """Of what a peer announces, towards one that holds ``own``."""
        blocks = 0
        for src, pro in announced.items():
            if pro > (held := own.get(src, -1)):
                blocks += pro // (BLOCK_MASK + 1) - max(held, 0) // (BLOCK_MASK + 1) + 1
        return cls(blocks)

    def take(self, block: Id, size: int) -> None:
        """A D of this block; those of one block follow each other."""
        self._blocks += block != self._block
        self._block = block
        self._bytes += size

    def now(self) -> Progress:
        """How far it is."""
        return Progress(self._blocks, max(self._blocks, self._expected), self._bytes, 0)
