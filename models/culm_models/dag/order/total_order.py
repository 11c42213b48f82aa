"""Total order of the operations of one id, built in any order of arrival (5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.order.ranked_list import RankedList
from culm_models.dag.order.ranks import ROOT, Rank, builds_on, rank_of


@dataclass(frozen=True, slots=True)
class OrderChange:
    """Change of the order by an operation and by the operations that had waited for it."""

    added: tuple[Cid, ...]
    """Operations that entered the order, each after its prior."""
    start: int
    """First position that changed; the length of the order if nothing changed."""
    changed: int
    """Number of positions from `start` to the new end."""
    superseded: Cid | None
    """The previous tip, if the new tip does not build on it."""


class TotalOrder:
    """All operations of one id. An operation waits until its prior is in the order."""

    __slots__ = ("_heads", "_held", "_priors", "_ranked", "_ranks", "_waiting")

    def __init__(self) -> None:
        self._priors: dict[Cid, Cid | None] = {}
        self._ranks: dict[Cid, Rank] = {}
        self._ranked = RankedList()
        self._waiting: dict[Cid, list[Cid]] = {}
        self._held: set[Cid] = set()
        # Operations in the order that no other operation builds on.
        self._heads: set[Cid] = set()

    @property
    def priors(self) -> dict[Cid, Cid | None]:
        """The prior of every operation, including the waiting ones."""
        return self._priors

    def __contains__(self, cid: Cid) -> bool:
        return cid in self._ranks

    def __len__(self) -> int:
        return len(self._ranked)

    def add(self, cid: Cid, prior: Cid | None) -> OrderChange:
        """Add an operation. Adding it again changes nothing."""
        before = self._ranked.last()
        added: list[Cid] = []
        start: int | None = None
        if cid not in self._priors:
            self._priors[cid] = prior
            if prior is not None and prior not in self._ranks:
                self._held.add(cid)
                self._waiting.setdefault(prior, []).append(cid)
            else:
                ready = [cid]
                while ready:
                    admitted = ready.pop()
                    position = self._admit(admitted)
                    start = position if start is None else min(start, position)
                    added.append(admitted)
                    ready += self._waiting.pop(admitted, ())
        if start is None:
            start = len(self._ranked)
        return OrderChange(tuple(added), start, len(self._ranked) - start, self._superseded(before))

    def _admit(self, cid: Cid) -> int:
        prior = self._priors[cid]
        self._held.discard(cid)
        if prior is not None:
            self._heads.discard(prior)
        self._heads.add(cid)
        rank = rank_of(cid, ROOT if prior is None else self._ranks[prior])
        self._ranks[cid] = rank
        return self._ranked.add(rank)

    def _superseded(self, before: Rank | None) -> Cid | None:
        after = self._ranked.last()
        if before is None or after is None or builds_on(after, before):
            return None
        return before.cid

    @property
    def tip(self) -> Cid | None:
        """The last operation, or None if the order is empty."""
        last = self._ranked.last()
        return None if last is None else last.cid

    def tip_key(self) -> list[Cid]:
        """Return the sort key of the tip; empty if the order is empty."""
        last = self._ranked.last()
        return [] if last is None else last.key()

    def order(self, start: int = 0) -> list[Cid]:
        """Return the operations from a position on, first to last."""
        return [rank.cid for rank in self._ranked.starting_at(start)]

    def newest_first(self) -> Iterator[Cid]:
        """Yield the operations, last to first."""
        return (rank.cid for rank in reversed(self._ranked))

    def builds_on(self, cid: Cid, other: Cid) -> bool:
        """Whether `other` is `cid` or an ancestor of it. Both must be in the order."""
        return builds_on(self._ranks[cid], self._ranks[other])

    def heads(self) -> list[Cid]:
        """Return the operations in the order that no other operation builds on, ascending."""
        return sorted(self._heads)

    def held(self) -> list[Cid]:
        """Return the operations that wait for a prior, ascending."""
        return sorted(self._held)


def order_of(operations: Iterable[tuple[Cid, Cid | None]]) -> TotalOrder:
    """Build the order of operations, each given with its prior."""
    order = TotalOrder()
    for cid, prior in operations:
        order.add(cid, prior)
    return order
