"""An ordered set in plain lists, over any monoid: for small sets, tests and `culm conform`.

Items sort by `<`. A fingerprint is combined from the items' lifts in sorted order, in time linear in the
range; `add` puts an item in its place.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from culm_models.reconciliation.ordered_set import Span

Item = TypeVar("Item")
Fp = TypeVar("Fp")


@dataclass(frozen=True, slots=True)
class Monoid(Generic[Item, Fp]):
    """How items become fingerprints: each one's lift, and all of them combined in order.

    `combine` of no lifts is the neutral fingerprint.
    """

    lift: Callable[[Item], Any]
    combine: Callable[[Iterable[Any]], Fp]


def _concatenated(texts: Iterable[str]) -> str:
    found = list(texts)
    # The text "0" is neutral too, but not the fingerprint of a range that holds it.
    return "".join(text for text in found if text != "0") if found else "0"


CONCAT: Final[Monoid[str, str]] = Monoid(lambda text: text, _concatenated)
"""Texts one after the other; the neutral one is "0", as range-reconcile's tests have it."""


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
        """How many items sort before each bound."""
        return [bisect_left(self._items, bound) for bound in bounds]

    def fingerprints(self, spans: Sequence[Span]) -> list[Fp]:
        """The lifts of each span, combined in sorted order."""
        return [self._monoid.combine(self._in_order(self._lifts, *span)) for span in spans]

    def items(self, start: int, size: int) -> list[Item]:
        """The items of a span, from its start on."""
        over = start + size - len(self._items)
        return self._items[start : start + size] + (self._items[:over] if over > 0 else [])

    def bounds(self, ranks: Sequence[int]) -> list[Item]:
        """The items at these ranks: they part themselves from all before."""
        return [self._items[rank] for rank in ranks]

    def add(self, item: Item) -> None:
        """Put an item in its place; nothing when it is there."""
        rank = bisect_left(self._items, item)
        if rank < len(self._items) and self._items[rank] == item:
            return
        self._items.insert(rank, item)
        self._lifts.insert(rank, self._monoid.lift(item))

    @staticmethod
    def _in_order(values: list[Any], start: int, size: int) -> list[Any]:
        over = start + size - len(values)
        return (values[:over] if over > 0 else []) + values[start : start + size]
