"""The ring of ranks: an ordered set as the reconciliation machine sees it.

A range [x, y) begins at its lower bound and ends before its upper bound. With x < y it is plain; with
x >= y it goes on from the last item to the first one, and x == y is everything. On ranks that is a span
(start rank, size), counted modulo n, with the start in 0..n-1, or 0 when n = 0. Bounds need not be items.

As a batch walks it, the ring goes from the batch's lower bound up, round over the end, and back: a position
is (0, bound) from that origin on, (1, bound) past the end of the order, and `END` where the walk is back.
Positions of one origin compare as tuples.

Every method of a set takes many ranges at once: the machine collects a whole batch of messages and asks once.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

Item = TypeVar("Item")
Fp_co = TypeVar("Fp_co", covariant=True)

Span: TypeAlias = tuple[int, int]
"""Start rank and size of a range on the ring."""


class OrderedSet(Protocol[Item, Fp_co]):
    """A sorted set that does not change while a session runs. Items are ordered by `<`."""

    def __len__(self) -> int: ...

    def ranks(self, bounds: Sequence[Item]) -> Sequence[int]:
        """How many items sort before each bound."""

    def fingerprints(self, spans: Sequence[Span]) -> Sequence[Fp_co]:
        """The fingerprint of each span, as it goes into messages and compared by `==`.

        A span that wraps is combined in sorted order: the part from rank 0 first, then the part from its
        start. This is seen only where combining is not commutative.
        """

    def items(self, start: int, size: int) -> Sequence[Item]:
        """The items of one span, from its start on."""

    def bounds(self, ranks: Sequence[int]) -> Sequence[Item]:
        """For each rank in 0..n-1 a bound that parts its item from all items before."""


class GrowingSet(OrderedSet[Item, Fp_co], Protocol):
    """A set that received items join, as in the published algorithm (`absorb`)."""

    def add(self, item: Item) -> None:
        """Put an item in its place; nothing when it is there."""


Position: TypeAlias = tuple[Any, ...]

END: Final[Position] = (2,)


def start_of(origin: Any) -> Position:
    """Where a walk from ``origin`` begins."""
    return (0, origin)


def position(bound: Any, origin: Any) -> Position:
    """Where the range that ends at ``bound`` ends, on a walk from ``origin``."""
    if origin < bound:
        return (0, bound)
    if bound < origin:
        return (1, bound)
    return END
