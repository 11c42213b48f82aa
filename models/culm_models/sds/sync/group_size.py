"""How many distinct participants speak in a channel, in bounded memory.

Of the hashes of all senders the smallest 1,024 are kept: up to so many the count is exact, beyond it follows
from how densely they lie, within some percent.
"""

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

_KEPT: Final = 1_024
_HASH_BYTES: Final = 8
_RANGE: Final = 1 << (8 * _HASH_BYTES)


class GroupSize:
    """Counts distinct senders, up to `most`."""

    __slots__ = ("_hashes", "_last", "_most", "_seen")

    def __init__(self, most: int, hashes: Iterable[int] = ()) -> None:
        self._most = most
        # Known not to change anything if it comes again.
        self._last: str | None = None
        self._hashes = sorted(hashes)
        self._seen = set(self._hashes)

    def add(self, sender_id: str) -> None:
        """This sender has spoken."""
        if sender_id == self._last:
            return
        self._last = sender_id
        digest = blake2b(sender_id.encode(), digest_size=_HASH_BYTES).digest()
        number = int.from_bytes(digest, "big")
        if number in self._seen or (len(self._hashes) == _KEPT and number > self._hashes[-1]):
            return
        if len(self._hashes) == _KEPT:
            self._seen.remove(self._hashes.pop())
        self._hashes.insert(bisect_left(self._hashes, number), number)
        self._seen.add(number)

    def count(self) -> int:
        """How many there are: exact to 1,024."""
        if len(self._hashes) < _KEPT:
            return min(len(self._hashes), self._most)
        return min(max(_KEPT, (_KEPT - 1) * _RANGE // self._hashes[-1]), self._most)

    def hashes(self) -> list[int]:
        """What a new one is made of, to go on counting."""
        return list(self._hashes)
