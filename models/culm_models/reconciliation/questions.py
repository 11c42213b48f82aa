"""What our last batch left open, and what the remote's answer says about it: facts (rbsr.md, 4.1).

A batch of ours asks about some ranges (fingerprints, runs and empty payloads that want an answer) and closes
the others. The answer walks the ring in the same order, so one pointer finds what each message is about.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

from culm_models.reconciliation.messages import RangeDoneError
from culm_models.reconciliation.ordered_set import Position, Span


class Asked(IntEnum):
    """How a range was asked about."""

    FINGERPRINT = 0
    RUN = 1
    EMPTY = 2


# Reading a member off its class costs several times what the comparison does.
BY_FINGERPRINT: Final = Asked.FINGERPRINT
BY_RUN: Final = Asked.RUN
BY_EMPTY: Final = Asked.EMPTY

Question: TypeAlias = tuple[Position, Position, Asked, Span]
"""From where to where, how, and the span of our own items there."""


@dataclass(slots=True)
class Facts:
    """What one side has learnt about the other's set since the facts were last taken.

    For an adapter that moves data by itself. Spans are ranges of the own set as (start rank, size), each
    within the set that the session began with. Only what is certain is reported; an own item that is in no
    fact is one that the remote never mentioned.
    """

    shown: list[Any] = field(default_factory=list)
    """Items that the remote holds, by its own word, in order of arrival, once their run is complete."""
    equal: list[Span] = field(default_factory=list)
    """Both sides hold the same here: we compared, or the remote answered our fingerprint with `Done`."""
    complete: list[Span] = field(default_factory=list)
    """The remote has shown all its items of the range: own items here that it did not show, it lacks."""
    answered: list[Span] = field(default_factory=list)
    """We showed our items here and the remote's answer is complete: it named what differs, among `shown`.

    An own item here that was not shown is equal there, or lacking: the published algorithm does not tell.
    """


class Questions:
    """The open ranges of one batch, in its order; those of the whole ring when there was no batch yet."""

    __slots__ = ("_at", "_open")

    def __init__(self, asked: list[Question] | None) -> None:
        self._open = asked
        self._at = 0

    def check(self, low: Position, high: Position) -> None:
        """The remote says more about [low, high), all of which must be open. Raises `RangeDoneError`.

        It may take ranges that touch together: range-reconcile does where it leaves an answer out.
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
                raise RangeDoneError("more is said about a range in which nothing was open")
            reach = asked[at][1]
            at += 1

    def check_any(self, low: Position, high: Position) -> None:
        """The remote says its last on [low, high), of which a part must be open. Raises `RangeDoneError`.

        It may take what was closed before and lies in front of that together with it.
        """
        asked = self._open
        if asked is None:
            return
        self._pass(low)
        if self._at == len(asked) or not asked[self._at][0] < high:
            raise RangeDoneError("items of a range in which nothing was open")

    def close(self, low: Position, high: Position, facts: Facts, *, by_done: bool) -> None:
        """The remote's last word on [low, high): what it covers whole becomes facts."""
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
