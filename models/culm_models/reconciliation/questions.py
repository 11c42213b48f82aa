"""The ranges that our last batch left open, and the facts that the remote's answer gives (rbsr.md, 4.1).

A batch of ours asks about some ranges (fingerprints, runs and empty payloads that need an answer) and closes
the others. The answer walks the ring in the same order, so one pointer finds the range of each message.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

from culm_models.reconciliation.messages import RangeDoneError
from culm_models.reconciliation.ordered_set import Position, Span


class Asked(IntEnum):
    """Kind of message by which a range was asked about."""

    FINGERPRINT = 0
    RUN = 1
    EMPTY = 2


# Reading a member from its class costs several times as much as the comparison.
BY_FINGERPRINT: Final = Asked.FINGERPRINT
BY_RUN: Final = Asked.RUN
BY_EMPTY: Final = Asked.EMPTY

Question: TypeAlias = tuple[Position, Position, Asked, Span]
"""Start and end position, kind, and the span of our own items in the range."""


@dataclass(slots=True)
class Facts:
    """Facts that one side has learnt about the other's set since they were last taken.

    For an adapter that moves data by itself. Spans are ranges of the own set as (start rank, size), each
    within the set that the session began with. Only what is certain is reported. The
    remote never mentioned an own item that is in no fact.
    """

    shown: list[Any] = field(default_factory=list)
    """Items that the remote has stated to hold, in order of arrival, once their run is complete."""
    equal: list[Span] = field(default_factory=list)
    """Both sides hold the same items here: we compared, or the remote answered our fingerprint with `Done`.
    """
    complete: list[Span] = field(default_factory=list)
    """The remote has sent all its items of the range; it is missing all own items here that it did not send.
    """
    answered: list[Span] = field(default_factory=list)
    """We sent our items here and the remote's answer is complete: the items that differ are among `shown`.

    An own item here that was not shown is either equal at the remote or missing there: the published
    algorithm does not distinguish the two.
    """


class Questions:
    """The open ranges of one batch, in its order; the whole ring if there was no batch yet."""

    __slots__ = ("_at", "_open")

    def __init__(self, asked: list[Question] | None) -> None:
        self._open = asked
        self._at = 0

    def check(self, low: Position, high: Position) -> None:
        """Check that all of [low, high) is open, about which the remote sends more. Raises `RangeDoneError`.

        The remote may merge adjacent ranges: range-reconcile does so when it leaves an answer out.
        """
        asked = self._open
        if asked is None:
            return
        at, count = self._at, len(asked)
        while at < count and not low < asked[at][1]:
            at += 1
        self._at = at
        reach = low
        while reach < high:
            if at == count or reach < asked[at][0]:
                raise RangeDoneError("further messages about a range that was settled")
            reach = asked[at][1]
            at += 1

    def check_any(self, low: Position, high: Position) -> None:
        """Check that a part of [low, high) is open for the remote's last items. Raises `RangeDoneError`.

        The remote may merge the open part with ranges before it that were closed already.
        """
        asked = self._open
        if asked is None:
            return
        self._pass(low)
        if self._at == len(asked) or not asked[self._at][0] < high:
            raise RangeDoneError("items of a range in which nothing was open")

    def close(self, low: Position, high: Position, facts: Facts, *, by_done: bool) -> None:
        """End [low, high) and record the questions that it covers entirely as facts."""
        asked = self._open
        if asked is None:
            return
        self._pass(low)
        at, count = self._at, len(asked)
        while at < count and not high < asked[at][1]:
            begin, _, how, span = asked[at]
            at += 1
            if begin < low or not span[1]:
                continue
            if how is BY_RUN:
                facts.answered.append(span)
            elif how is BY_FINGERPRINT and by_done:
                facts.equal.append(span)
        self._at = at

    def _pass(self, low: Position) -> None:
        asked, at = self._open, self._at
        assert asked is not None
        while at < len(asked) and not low < asked[at][1]:
            at += 1
        self._at = at
