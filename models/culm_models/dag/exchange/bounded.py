"""What is remembered on another's word: so much of it, and then the oldest is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

_T = TypeVar("_T")


class RecentSet(Generic[_T]):
    """The last `most` things that were added."""

    __slots__ = ("_held", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[_T, None] = OrderedDict()

    def add(self, item: _T) -> None:
        """Remember something; the oldest may be forgotten."""
        self._held[item] = None
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def discard(self, item: _T) -> None:
        """Forget something."""
        self._held.pop(item, None)

    def __contains__(self, item: object) -> bool:
        return item in self._held

    def __len__(self) -> int:
        return len(self._held)
