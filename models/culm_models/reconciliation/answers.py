"""Answers of one side to the ranges that the other closed: the rules of rbsr.md, 1.2 and 1.3.

The ranges of a batch are collected, and the set is queried once: for all ranks, for all fingerprints, and for
all bounds at which ranges are cut. Only the items of small ranges are read one range at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Generic, TypeVar

from culm_models.reconciliation.incoming import DONE, EMPTY, FINGERPRINT, REPLY, RUN, Closed
from culm_models.reconciliation.messages import RepeatedRequestError
from culm_models.reconciliation.ordered_set import GrowingSet, OrderedSet, Span, position, start_of
from culm_models.reconciliation.outgoing import Outgoing
from culm_models.reconciliation.questions import Facts
from culm_models.reconciliation.settings import Limits, ReconciliationSettings, cut, is_leaf

Item = TypeVar("Item")
Fp = TypeVar("Fp")


class Answers(Generic[Item, Fp]):
    """Answers closed ranges, in order, into an `Outgoing`."""

    __slots__ = ("_items_shown", "_outgoing", "_own", "_settings", "_slack_items")

    def __init__(
        self, own: OrderedSet[Item, Fp], settings: ReconciliationSettings, limits: Limits, outgoing: Outgoing
    ) -> None:
        self._own = own
        self._settings = settings
        self._outgoing = outgoing
        self._slack_items = limits.slack_items
        self._items_shown = 0

    def open(self, cuts: Sequence[Item]) -> Item:
        """Send the opening batch of a non-empty set, up to its terminal; returns its lower bound.

        Cuts between which no item is held are left out. `upstream` opens with the items of small parts.
        """
        count, rule, division = len(self._own), self._settings.rule, self._settings.division
        if cuts:
            starts, bounds = _apart(cuts, self._own.ranks(cuts), count)
        else:
            alone = rule == "even" and count <= self._settings.threshold
            starts = [0] if alone else cut(rule, count, division)
            bounds = list(self._own.bounds(starts))
        origin = bounds[0]
        ends = [*starts[1:], starts[0] + count]
        spans = [(start, end - start) for start, end in zip(starts, ends, strict=True)]
        fingerprints = self._own.fingerprints(spans)
        outgoing = self._outgoing
        outgoing.lower_bound(origin)
        low = start_of(origin)
        for span, upper, fingerprint in zip(spans, [*bounds[1:], origin], fingerprints, strict=True):
            high = position(upper, origin)
            if rule == "upstream" and not cuts and span[1] <= self._settings.threshold:
                outgoing.question(self._items(span), upper, low, high, span)
            else:
                outgoing.fingerprint(fingerprint, upper, low, high, span)
            low = high
        return origin

    def show_all(self) -> Item:
        """Send all items of a non-empty set, up to the terminal; returns the batch's lower bound."""
        origin = self._own.bounds([0])[0]
        self._outgoing.lower_bound(origin)
        self._outgoing.reply(self._items((0, len(self._own))), origin)
        return origin

    def answer(self, closed: Sequence[Closed], origin: Any, facts: Facts) -> None:
        """Answer the ranges of one batch that begins at ``origin``, in their order.

        If received items join the set, the caller passes one range at a time, because later ranges then
        concern the changed set.
        """
        if not closed:
            return
        if self._settings.absorb:
            self._take_in(closed)
        spans = self._spans(closed)
        differing = self._compare(closed, spans)
        parts = self._split([spans[index] for index in differing if not self._is_leaf(spans[index])])
        outgoing, reports, brief = self._outgoing, not self._settings.absorb, self._settings.brief
        for index, (kind, _, upper, low, high, data) in enumerate(closed):
            span = spans[index]
            if kind is FINGERPRINT:
                if index not in differing:
                    outgoing.done(upper, compared=True)
                    if reports and span[1]:
                        facts.equal.append(span)
                elif not span[1]:
                    outgoing.empty_payload(upper, low, high)
                elif self._is_leaf(span):
                    outgoing.question(self._items(span), upper, low, high, span)
                else:
                    outgoing.fingerprints(*next(parts), upper, low, high, origin)
            elif kind is RUN or kind is EMPTY:
                if reports and span[1]:
                    facts.complete.append(span)
                self._reply(data, span, upper)
            else:
                outgoing.done(upper, implied=brief)

    def _take_in(self, closed: Sequence[Closed]) -> None:
        assert len(closed) == 1
        kind, *_, items = closed[0]
        if kind is RUN or kind is REPLY:
            own: GrowingSet[Item, Fp] = self._own  # type: ignore[assignment]
            for item in items:
                own.add(item)

    def _spans(self, closed: Sequence[Closed]) -> list[Span]:
        """Return the span of each range among our items; (0, 0) for ranges that only end."""
        bounds: list[Any] = []
        ends: list[int] = []
        before: Any = None
        for kind, lower, upper, _, _, _ in closed:
            if kind is REPLY or kind is DONE:
                continue
            # Ranges that touch share a bound, and look it up once.
            if lower is not before or not bounds:
                bounds.append(lower)
            bounds.append(upper)
            ends.append(len(bounds))
            before = upper
        ranks = self._own.ranks(bounds) if bounds else ()
        count = len(self._own)
        spans: list[Span] = []
        next_end = iter(ends)
        for kind, lower, upper, _, _, _ in closed:
            if kind is REPLY or kind is DONE:
                spans.append((0, 0))
                continue
            end_index = next(next_end)
            start, end = ranks[end_index - 2], ranks[end_index - 1]
            size = end - start if lower < upper else count - start + end
            spans.append((start if start < count else 0, size))
        return spans

    def _compare(self, closed: Sequence[Closed], spans: list[Span]) -> dict[int, None]:
        """Return the indexes of the fingerprints that differ from ours, in order."""
        indexes = [index for index, entry in enumerate(closed) if entry[0] is FINGERPRINT]
        if not indexes:
            return {}
        ours = self._own.fingerprints([spans[index] for index in indexes])
        return {
            index: None
            for index, fingerprint in zip(indexes, ours, strict=True)
            if fingerprint != closed[index][5]
        }

    def _is_leaf(self, span: Span) -> bool:
        settings = self._settings
        return is_leaf(settings.rule, span[1], settings.threshold, settings.division)

    def _split(self, spans: Sequence[Span]) -> Iterator[tuple[list[Span], Sequence[Fp], list[Any]]]:
        """Yield the parts of each range: spans, fingerprints, and the bounds between them."""
        if not spans:
            return
        rule, division, count = self._settings.rule, self._settings.division, len(self._own)
        lengths: list[int] = []
        inner: list[int] = []
        max_moves: list[int] = []
        for start, size in spans:
            offsets = cut(rule, size, division)
            length = len(offsets)
            lengths.append(length)
            inner += [start + offset for offset in offsets[1:]]
            # At most a third of a part, so that no two cuts meet.
            max_moves += [size // length // 3] * (length - 1)
        if self._settings.move_cuts is not None:
            moves = self._settings.move_cuts([rank % count for rank in inner], max_moves)
            inner = [rank + move for rank, move in zip(inner, moves, strict=True)]
        parts: list[Span] = []
        cuts = iter(inner)
        for (start, size), length in zip(spans, lengths, strict=True):
            for begin, end in pairwise((start, *islice(cuts, length - 1), start + size)):
                parts.append((begin if begin < count else begin - count, end - begin))
        bounds = iter(self._own.bounds([rank if rank < count else rank - count for rank in inner]))
        fingerprints = self._own.fingerprints(parts)
        at = 0
        for length in lengths:
            until = at + length
            yield parts[at:until], fingerprints[at:until], list(islice(bounds, length - 1))
            at = until

    def _reply(self, received: Sequence[Any], span: Span, upper: Any) -> None:
        """Send our items for a range of which the remote has sent all items, or end the range."""
        settings = self._settings
        if settings.reply is not None:
            items = settings.reply(received, span)
            self._count_items(len(items))
        else:
            items = self._items(span)
            if received:
                just_received = set(received)
                items = [item for item in items if item not in just_received]
        if items:
            self._outgoing.reply(items, upper)
        else:
            # range-reconcile sends nothing here, and a range that follows would be read as beginning here.
            self._outgoing.done(upper, implied=settings.absorb and settings.rule == "upstream")

    def _items(self, span: Span) -> Sequence[Item]:
        """Return the items of a span in sorted order."""
        start, size = span
        self._count_items(size)
        over = start + size - len(self._own)
        if over <= 0:
            return self._own.items(start, size)
        return [*self._own.items(0, over), *self._own.items(start, size - over)]

    def _count_items(self, size: int) -> None:
        self._items_shown += size
        if self._items_shown > 2 * len(self._own) + self._slack_items:
            raise RepeatedRequestError("the same items are asked for again and again")


def _apart(cuts: Sequence[Item], ranks: Sequence[int], count: int) -> tuple[list[int], list[Item]]:
    """Return the ranks of the cuts that have items between themselves and the cut before, and these cuts."""
    starts, bounds = [ranks[0]], [cuts[0]]
    for rank, bound in zip(ranks, cuts, strict=True):
        if rank > starts[-1]:
            starts.append(rank)
            bounds.append(bound)
    if len(starts) > 1 and starts[-1] - starts[0] == count:
        # No item is held between the last cut and the first one.
        del starts[-1], bounds[-1]
    return starts, bounds
