"""The compact form of the messages of set reconciliation (specification "replication", 2.1, shortened).

The messages are those of the specification with two shorter encodings. A public key is its 32 bytes. A bound
whose log id and sequence number are 0 is the bytes of its key without trailing zero bytes, as a plain byte
string. Both encodings are exact: every bound of a message reads back as the same bound.

The choice of bounds saves the bytes. The side that cuts its items into ranges is free to choose a bound
between two neighbours, so a session in the compact form works on `ShortBounds`. It cuts at the shortest
prefix that separates the neighbours, and preferably between two authors rather than between two logs of one
author. Both ends work with that bound from then on; the encoding shortens nothing further. Most such bounds
are not keys (they end in zero bytes), so they are only for remotes that offer the compact form: a plain peer
might refuse them.
"""

from collections.abc import Sequence
from typing import Final

from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.wire.items import MAX_U64
from culm_models.p2panda.wire.messages import Bound, Item
from culm_models.reconciliation.ordered_set import OrderedSet, Span

LOWEST_BOUND: Final[Bound] = (bytes(PUBLIC_KEY_SIZE), 0, 0)
"""The bound before all items, at which a set that is cut in the compact form begins."""


def separating_bound(before: Bound | None, item: Bound) -> Bound:
    """Return the bound b with before < b <= item that has the shortest encoding and splits no log.

    `before` is the item before `item` in sort order, of another log; None if `item` is the first. Two logs of
    one author have no shorter bound between them than the second log's start.
    """
    if before is None:
        return LOWEST_BOUND
    key, log_id, _ = item
    other = before[0]
    if key == other:
        return key, log_id, 0
    # The keys differ and are in order, so at the first byte that differs, `key` has the greater one.
    differs = int.from_bytes(key, "big") ^ int.from_bytes(other, "big")
    equal = PUBLIC_KEY_SIZE - (differs.bit_length() + 7) // 8
    return padded(key[: equal + 1]), 0, 0


def prefix(public_key: bytes) -> bytes:
    """Return the encoding of the bound (public key, 0, 0)."""
    return public_key.rstrip(b"\x00")


def padded(spelled: bytes) -> bytes:
    """Return the key of a bound that is encoded as a prefix of at most 32 bytes."""
    return spelled.ljust(PUBLIC_KEY_SIZE, b"\x00")


class ShortBounds:
    """A sync range that is cut at the shortest bounds; otherwise equal to the set `whole` behind it."""

    __slots__ = ("_whole",)

    def __init__(self, whole: OrderedSet[Item, bytes]) -> None:
        self._whole = whole

    def __len__(self) -> int:
        return len(self._whole)

    def ranks(self, bounds: Sequence[Item]) -> Sequence[int]:
        """Return the number of items that sort before each bound."""
        return self._whole.ranks(bounds)

    def fingerprints(self, spans: Sequence[Span]) -> Sequence[bytes]:
        """Return the fingerprint of each span."""
        return self._whole.fingerprints(spans)

    def items(self, start: int, size: int) -> Sequence[Item]:
        """Return the items of one span."""
        return self._whole.items(start, size)

    def bounds(self, ranks: Sequence[int]) -> list[Item]:
        """Return for each rank the shortest bound that separates its item from all items before."""
        before = self._whole.bounds([max(rank - 1, 0) for rank in ranks])
        own = self._whole.bounds(ranks)
        return [
            separating_bound(other if rank else None, item)
            for rank, other, item in zip(ranks, before, own, strict=True)
        ]

    def move_cuts(self, ranks: Sequence[int], max_moves: Sequence[int]) -> list[int]:
        """Return how far to move cuts at these ranks, at most by `max_moves`, to separate two authors."""
        moves = [0] * len(ranks)
        before = self._whole.bounds([max(rank - 1, 0) for rank in ranks])
        own = self._whole.bounds(ranks)
        within = [
            index
            for index, max_move in enumerate(max_moves)
            if max_move and ranks[index] and before[index][0] == own[index][0]
        ]
        if not within:
            return moves
        firsts = self._whole.ranks([(own[index][0], 0, 0) for index in within])
        lasts = self._whole.ranks([(own[index][0], MAX_U64, MAX_U64) for index in within])
        for index, first, last in zip(within, firsts, lasts, strict=True):
            rank = ranks[index]
            near = [cut - rank for cut in (first, last) if 0 < cut < len(self._whole)]
            move = min(near, key=abs, default=0)
            if abs(move) <= max_moves[index]:
                moves[index] = move
        return moves
