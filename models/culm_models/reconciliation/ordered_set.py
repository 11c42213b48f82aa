"""The ring of ranks: an ordered set as the reconciliation machine sees it.

A range [x, y) begins at its lower bound and ends before its upper bound. With x < y it is plain; with x >= y
it continues from the last item to the first one, and x == y is the whole ring. On ranks, that is a span
(start rank, size), counted modulo n, with the start in 0..n-1, or 0 when n = 0. Bounds need not be items.

A batch walks the ring from its lower bound up, around the end of the order, and back. A position is (0,
bound) from that origin on, (1, bound) past the end of the order, and `END` when the walk is back at the
origin. Positions with the same origin compare as tuples.

Every method of a set takes many ranges at once: the machine collects a whole batch of messages and makes one
query.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

Item = TypeVar("Item")
Fp_co = TypeVar("Fp_co", covariant=True)

Span: TypeAlias = tuple[int, int]
"""Start rank and size of a range on the ring."""


class OrderedSet(Protocol[Item, Fp_co]):
    """A sorted set that does not change while a session runs. Items are ordered by `<`."""

    def __len__(self) -> int: ...

    def ranks(self, bounds: Sequence[Item]) -> Sequence[int]:
        """Return the number of items that sort before each bound."""

    def fingerprints(self, spans: Sequence[Span]) -> Sequence[Fp_co]:
        """Return the fingerprint of each span, in the form used in messages and compared by `==`.

        A span that wraps is combined in sorted order: the part from rank 0 first, then the part from its
        start. This matters only if combining is not commutative.
        """

    def items(self, start: int, size: int) -> Sequence[Item]:
        """Return the items of one span, from its start on."""

    def bounds(self, ranks: Sequence[int]) -> Sequence[Item]:
        """Return for each rank in 0..n-1 a bound that separates its item from all items before."""


class GrowingSet(OrderedSet[Item, Fp_co], Protocol):
    """A set that received items join, as in the published algorithm (`absorb`)."""

    def add(self, item: Item) -> None:
        """Insert an item; does nothing if the set contains it."""


Position: TypeAlias = tuple[Any, ...]

END: Final[Position] = (2,)


def start_of(origin: Any) -> Position:
    """Return the position at which a walk from ``origin`` begins."""
    return (0, origin)


def position(bound: Any, origin: Any) -> Position:
    """Return the position of the bound ``bound`` as the end of a range, on a walk from ``origin``."""
    if origin < bound:
        return (0, bound)
    if bound < origin:
        return (1, bound)
    return END


# Items sort by `<`. A fingerprint is combined from the items' lifts in sorted order, in time linear in the
# range; `add` puts an item in its place.

Fp = TypeVar("Fp")


@dataclass(frozen=True, slots=True)
class Monoid(Generic[Item, Fp]):
    """Rule by which items become fingerprints: the lift of each item, and all lifts combined in order.

    `combine` of no lifts is the neutral fingerprint.
    """

    lift: Callable[[Item], Any]
    combine: Callable[[Iterable[Any]], Fp]


def _concatenated(texts: Iterable[str]) -> str:
    fingerprints = list(texts)
    # The text "0" is neutral as well, but is not the fingerprint of a range that holds it.
    return "".join(text for text in fingerprints if text != "0") if fingerprints else "0"


CONCAT: Final[Monoid[str, str]] = Monoid(lambda text: text, _concatenated)
"""Concatenation of texts; the neutral one is "0", as in range-reconcile's tests."""


class SortedList(Generic[Item, Fp]):
    """A set as a sorted list, with the lift of each item beside it."""

    __slots__ = ("_items", "_lifts", "_monoid")

    def __init__(self, items: Iterable[Item], monoid: Monoid[Item, Fp]) -> None:
        self._items: list[Any] = []
        for item in sorted(items):  # type: ignore[type-var]
            if not self._items or self._items[-1] != item:
                self._items.append(item)
        self._monoid = monoid
        self._lifts = [monoid.lift(item) for item in self._items]

    def __len__(self) -> int:
        return len(self._items)

    def ranks(self, bounds: Sequence[Item]) -> list[int]:
        """Return the number of items that sort before each bound."""
        return [bisect_left(self._items, bound) for bound in bounds]

    def fingerprints(self, spans: Sequence[Span]) -> list[Fp]:
        """Return the lifts of each span, combined in sorted order."""
        return [self._monoid.combine(self._in_order(self._lifts, *span)) for span in spans]

    def items(self, start: int, size: int) -> list[Item]:
        """Return the items of a span, from its start on."""
        over = start + size - len(self._items)
        return self._items[start : start + size] + (self._items[:over] if over > 0 else [])

    def bounds(self, ranks: Sequence[int]) -> list[Item]:
        """Return the items at these ranks; each separates itself from all items before."""
        return [self._items[rank] for rank in ranks]

    def add(self, item: Item) -> None:
        """Insert an item; does nothing if the set contains it."""
        rank = bisect_left(self._items, item)
        if rank < len(self._items) and self._items[rank] == item:
            return
        self._items.insert(rank, item)
        self._lifts.insert(rank, self._monoid.lift(item))

    @staticmethod
    def _in_order(values: list[Any], start: int, size: int) -> list[Any]:
        over = start + size - len(values)
        return (values[:over] if over > 0 else []) + values[start : start + size]
