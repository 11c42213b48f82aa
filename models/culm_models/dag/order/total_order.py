"""Operations of one id in any order of arrival: their order, and from where on it changed (5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.order.ranked_list import RankedList
from culm_models.dag.order.ranks import ROOT, Rank, builds_on, rank_of


@dataclass(frozen=True, slots=True)
class OrderChange:
    """What an operation did to the order, those counted that had waited for it."""

    added: tuple[Cid, ...]
    """The operations that are in the order now and were not before, each behind its prior."""
    start: int
    """The first place that changed; the length of the order when none did."""
    changed: int
    """How many places from there to the new end."""
    superseded: Cid | None
    """The former tip, when it is no ancestor of the new one."""


class TotalOrder:
    """All operations of one id; those whose prior is not in the order wait for it."""

    __slots__ = ("_heads", "_held", "_priors", "_ranked", "_ranks", "_waiting")

    def __init__(self) -> None:
        self._priors: dict[Cid, Cid | None] = {}
        self._ranks: dict[Cid, Rank] = {}
        self._ranked = RankedList()
        self._waiting: dict[Cid, list[Cid]] = {}
        self._held: set[Cid] = set()
        # Those in the order on which none builds.
        self._heads: set[Cid] = set()

    @property
    def priors(self) -> dict[Cid, Cid | None]:
        """Every operation with its prior, held ones too."""
        return self._priors

    def __contains__(self, cid: Cid) -> bool:
        return cid in self._ranks

    def __len__(self) -> int:
        return len(self._ranked)

    def add(self, cid: Cid, prior: Cid | None) -> OrderChange:
        """Take an operation; one that is here already changes nothing."""
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
                    one = ready.pop()
                    place = self._admit(one)
                    start = place if start is None else min(start, place)
                    added.append(one)
                    ready += self._waiting.pop(one, ())
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
        """The last operation; None while there is none."""
        last = self._ranked.last()
        return None if last is None else last.cid

    def tip_key(self) -> list[Cid]:
        """The key of the tip."""
        last = self._ranked.last()
        return [] if last is None else last.key()

    def order(self, start: int = 0) -> list[Cid]:
        """The operations from a place on, first to last."""
        return [rank.cid for rank in self._ranked.starting_at(start)]

    def newest_first(self) -> Iterator[Cid]:
        """The operations, last to first."""
        return (rank.cid for rank in reversed(self._ranked))

    def builds_on(self, one: Cid, other: Cid) -> bool:
        """Of two in the order: whether `other` is `one` or an ancestor of it."""
        return builds_on(self._ranks[one], self._ranks[other])

    def heads(self) -> list[Cid]:
        """Those in the order on which none builds, ascending."""
        return sorted(self._heads)

    def held(self) -> list[Cid]:
        """Those that wait for a prior, ascending."""
        return sorted(self._held)


def order_of(operations: Iterable[tuple[Cid, Cid | None]]) -> TotalOrder:
    """The order of a whole set of operations."""
    order = TotalOrder()
    for cid, prior in operations:
        order.add(cid, prior)
    return order
