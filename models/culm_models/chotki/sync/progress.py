"""Progress of a diff in either direction, for observers of a first sync of many GB (reference 10, 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from culm_models.chotki.ids import BLOCK_MASK, Id


class Progress(NamedTuple):
    """Finished and total blocks and bytes; a total of 0 bytes means that it is unknown."""

    blocks_done: int
    blocks_total: int
    bytes_done: int
    bytes_total: int


NO_PROGRESS: Final = Progress(0, 0, 0, 0)


class IncomingProgress:
    """Progress of a received diff. The protocol does not announce its size.

    So the total of blocks is an estimate from both vectors: the blocks that contain new ids of the peer's
    sources. Bytes are those of D packets.
    """

    __slots__ = ("_block", "_blocks", "_bytes", "_expected")

    def __init__(self, expected_blocks: int) -> None:
        self._expected = expected_blocks
        self._blocks = 0
        self._bytes = 0
        self._block: Id | None = None

    @classmethod
    def expected(cls, announced: Mapping[int, int], own: Mapping[int, int]) -> IncomingProgress:
        """Return the progress before the first D, from the announced vector and the ``own`` one."""
        blocks = 0
        for src, pro in announced.items():
            if pro > (own_pro := own.get(src, -1)):
                blocks += pro // (BLOCK_MASK + 1) - max(own_pro, 0) // (BLOCK_MASK + 1) + 1
        return cls(blocks)

    def take(self, block: Id, size: int) -> None:
        """Count a D of this block; the D packets of one block follow one another."""
        self._blocks += block != self._block
        self._block = block
        self._bytes += size

    def now(self) -> Progress:
        """Return the current progress."""
        return Progress(self._blocks, max(self._blocks, self._expected), self._bytes, 0)
