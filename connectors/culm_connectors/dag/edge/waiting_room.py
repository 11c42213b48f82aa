"""How many nodes of a space may wait for a prior or a proof (3.4), counted anew now and then."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_SPACES_KEPT: Final = 10_000
_COUNTED_EVERY: Final = 1_000


class WaitingRoom:
    """Counts what waits, never too low; `count` counts it exactly, which takes longer the more there is."""

    def __init__(self, most: int, count: Callable[[bytes], int]) -> None:
        self._most = most
        self._count = count
        self._waiting: OrderedDict[bytes, int] = OrderedDict()
        self._asked_in_vain = 0

    def is_full(self, space: bytes) -> bool:
        """Whether no further node of a space may wait."""
        if self._waiting.get(space, 0) < self._most:
            return False
        if self._asked_in_vain % _COUNTED_EVERY == 0:
            # What waited may have got what it waited for; whoever asks all the time does not have it counted.
            self._waiting[space] = self._count(space)
        is_full = self._waiting[space] >= self._most
        self._asked_in_vain = self._asked_in_vain + 1 if is_full else 0
        return is_full

    def enter(self, space: bytes) -> None:
        """A node of a space waits."""
        if space not in self._waiting:
            self._waiting[space] = self._count(space)
            if len(self._waiting) > _SPACES_KEPT:
                self._waiting.popitem(last=False)
        else:
            self._waiting[space] += 1
