"""Sorted list of operations, stored in pieces, so that an insertion does not move all that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from culm_models.dag.order.ranks import Rank, sorts_before

_PIECE: Final = 512


class RankedList:
    """Sorted list of ranks. Adding a rank returns its position."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[list[Rank]] = [[]]
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Rank]:
        for piece in self._pieces:
            yield from piece

    def __reversed__(self) -> Iterator[Rank]:
        for piece in reversed(self._pieces):
            yield from reversed(piece)

    def last(self) -> Rank | None:
        """Return the last rank, or None if the list is empty."""
        return self._pieces[-1][-1] if self._length else None

    def add(self, rank: Rank) -> int:
        """Insert a rank. Returns its position, counted from 0."""
        self._length += 1
        last = self._pieces[-1]
        if not last or sorts_before(last[-1], rank):
            at, inside = len(self._pieces) - 1, len(last)
        else:
            at = self._piece_of(rank)
            inside = _place(self._pieces[at], rank)
        self._pieces[at].insert(inside, rank)
        position = sum(map(len, self._pieces[:at])) + inside
        if len(self._pieces[at]) > 2 * _PIECE:
            piece = self._pieces[at]
            self._pieces[at : at + 1] = [piece[:_PIECE], piece[_PIECE:]]
        return position

    def starting_at(self, position: int) -> list[Rank]:
        """Return all ranks from a position on."""
        ranks: list[Rank] = []
        before = self._length
        for piece in reversed(self._pieces):
            before -= len(piece)
            ranks[:0] = piece[max(0, position - before) :]
            if before <= position:
                break
        return ranks

    def _piece_of(self, rank: Rank) -> int:
        """Return the index of the first piece whose last rank sorts after this rank."""
        low, high = 0, len(self._pieces) - 1
        while low < high:
            middle = (low + high) // 2
            if sorts_before(self._pieces[middle][-1], rank):
                low = middle + 1
            else:
                high = middle
        return low


def _place(piece: list[Rank], rank: Rank) -> int:
    low, high = 0, len(piece)
    while low < high:
        middle = (low + high) // 2
        if sorts_before(piece[middle], rank):
            low = middle + 1
        else:
            high = middle
    return low
