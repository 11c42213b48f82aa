"""A sync range in memory: the heights of logs in order, with the fingerprint of any part of them.

The specification ("replication", 2.1) has one item a log, its height. Prefix sums answer for any range with
two look-ups; both ways to combine lanes can be undone, so a part is what its end has more than its start.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from culm_models.lifts import Item, Lanes, Lift


class SyncRange:
    """An immutable ordered set of items, at most one a log; ranks count from 0 in the items' order.

    A span is (start rank, size) on the ring: it goes on from the last item to the first one.
    """

    __slots__ = ("_items", "_lift", "_prefix", "_sums")

    def __init__(self, items: Iterable[Item], lift: Lift, salt: bytes = b"") -> None:
        self._items = sorted(items)
        self._lift = lift
        self._prefix = lift.prefix(salt)
        sums = [lift.neutral]
        for item in self._items:
            sums.append(lift.total((sums[-1], lift.lanes(item, salt))))
        self._sums = sums

    def __len__(self) -> int:
        return len(self._items)

    def ranks(self, bounds: Sequence[Item]) -> list[int]:
        """How many items sort before each bound; bounds need not be items."""
        return [bisect_left(self._items, bound) for bound in bounds]

    def fingerprints(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The fingerprint of each span as it goes on the wire."""
        return [self._prefix + self._lift.value(self._lanes(start, size)) for start, size in spans]

    def items(self, start: int, size: int) -> list[Item]:
        """The items of a span, from its start on."""
        end = start + size
        held = len(self._items)
        if end <= held:
            return self._items[start:end]
        return self._items[start:] + self._items[: end - held]

    def bounds(self, ranks: Sequence[int]) -> list[Item]:
        """The items at these ranks as bounds: with sequence number 0, before all of their log."""
        return [(*self._items[rank][:2], 0) for rank in ranks]

    def _lanes(self, start: int, size: int) -> Lanes:
        end, held, sums = start + size, len(self._items), self._sums
        if end <= held:
            return self._lift.without(sums[end], sums[start])
        return self._lift.total((self._lift.without(sums[held], sums[start]), sums[end - held]))
