"""Machines put opposite each other, over sets whose fingerprints are exact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from culm_models.reconciliation import Reconciler, Rule, Span
from culm_models.reconciliation.messages import (
    EmptyPayload,
    EmptySet,
    Fingerprint,
    Payload,
    ReconciliationMessage,
)
from culm_models.reconciliation.ordered_set import Monoid, SortedList

EXACT: Monoid[Any, Any] = Monoid(lambda item: item, tuple)
"""Equal fingerprints are equal sets."""

THRESHOLDS = st.sampled_from((1, 2, 4, 8))
DIVISIONS = st.sampled_from((2, 3, 4, 16))
RULES: st.SearchStrategy[Rule] = st.sampled_from(("upstream", "even"))
SETTINGS = st.fixed_dictionaries({"rule": RULES, "threshold": THRESHOLDS, "division": DIVISIONS})

NUMBERS = st.integers(-3, 60)
TEXTS = st.text("ab0", max_size=4)
PAIRS = st.tuples(st.integers(0, 4), st.text("ab", max_size=2))
ITEMS: st.SearchStrategy[st.SearchStrategy[Any]] = st.sampled_from((NUMBERS, TEXTS, PAIRS))


@st.composite
def two_sets(draw: st.DrawFn, max_size: int = 60) -> tuple[list[Any], list[Any]]:
    """Two sets of one kind that share much, little or nothing."""
    kind = draw(ITEMS)
    shared = draw(st.lists(kind, max_size=max_size))
    ours = draw(st.lists(kind, max_size=6))
    theirs = draw(st.lists(kind, max_size=6))
    return shared + ours, draw(st.sampled_from((shared, shared[::2], []))) + theirs


class Heights(SortedList[Any, Any]):
    """Log heights, as (key, log id, sequence number): the bounds come before all of a log."""

    def bounds(self, ranks: Sequence[int]) -> list[Any]:
        return [(*self._items[rank][:2], 0) for rank in ranks]


class Counted(SortedList[Any, Any]):
    """A set that counts what is asked of it."""

    def __init__(self, items: Any) -> None:
        super().__init__(items, EXACT)
        self.ranges = 0
        self.shown = 0

    def fingerprints(self, spans: Sequence[Span]) -> list[Any]:
        self.ranges += len(spans)
        return super().fingerprints(spans)

    def items(self, start: int, size: int) -> list[Any]:
        self.shown += size
        return super().items(start, size)


def absorbing(items: Iterable[Any], **settings: Any) -> tuple[SortedList[Any, Any], Reconciler[Any, Any]]:
    """A side that takes in what it receives."""
    own = SortedList(items, EXACT)
    return own, Reconciler(own, absorb=True, **settings)


def converse(
    first: Reconciler[Any, Any], second: Reconciler[Any, Any], max_batches: int = 80
) -> list[list[ReconciliationMessage]]:
    """The batches of a session, until nothing more is said."""
    batches = [first.start()]
    turn, other = second, first
    while batches[-1]:
        assert len(batches) < max_batches
        batches.append(turn.receive_batch(batches[-1]))
        turn, other = other, turn
    return batches[:-1]


def asks(message: ReconciliationMessage) -> bool:
    """Whether a message wants an answer."""
    match message:
        case Fingerprint() | EmptyPayload():
            return True
        case Payload() | EmptySet():
            return bool(message.can_respond)
    return False


def items_shown(batches: list[list[ReconciliationMessage]]) -> list[Any]:
    """The items of all payloads."""
    return [message.value for batch in batches for message in batch if isinstance(message, Payload)]
