"""One side of a reconciliation: messages in, messages out (rbsr.md, 1.3 to 1.6 and 4.5).

    incoming: messages become closed ranges  ->  answers: what to answer  ->  outgoing: messages

A side is done when it has sent a batch that asks nothing, or when both hold nothing. It is silent from then
on. The remote, which may need our last batch to be done itself, echoes it once. Under `even` without `absorb`
it does not: a side that receives a batch that asks nothing, and has nothing to answer, is done as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from culm_models.reconciliation.answers import Answers
from culm_models.reconciliation.incoming import Closed, Incoming
from culm_models.reconciliation.messages import (
    AfterDoneError,
    BatchCountError,
    Done,
    EmptySet,
    LowerBound,
    ReconciliationMessage,
    Terminal,
    UnexpectedEmptySetError,
)
from culm_models.reconciliation.ordered_set import OrderedSet
from culm_models.reconciliation.outgoing import Outgoing
from culm_models.reconciliation.questions import Facts
from culm_models.reconciliation.settings import Limits, MoveCuts, ReconciliationSettings, Reply, Rule

Item = TypeVar("Item")
Fp = TypeVar("Fp")

# range-reconcile never falls silent by itself, so a second echo may be in transit.
_ECHOES_MAX: Final = 2


class Reconciler(Generic[Item, Fp]):
    """The state machine of one side; it lives for one session.

    With `absorb`, received items join the set, as in the published algorithm. Without it, the set never
    changes, and `take_facts` returns what was learnt about the remote.

    Errors are `ReconciliationError`s; the machine cannot be used after one.
    """

    def __init__(
        self,
        own: OrderedSet[Item, Fp],
        *,
        rule: Rule = "even",
        threshold: int = 8,
        division: int = 4,
        absorb: bool = False,
        limits: Limits | None = None,
        session_id: int = 0,
        cuts: Sequence[Item] = (),
        reply: Reply | None = None,
        move_cuts: MoveCuts | None = None,
    ) -> None:
        """Create a machine over ``own``, which is a `GrowingSet` with ``absorb``.

        ``cuts``: sorted bounds at which the opening is cut, in place of the parts that the rule makes.

        ``reply``: called with the items that the remote has in a range (an empty sequence for an
        `EmptyPayload`) and our span of the range; returns the items to send in answer. Without it, these are
        the own items of the range except those just received. Only without ``absorb``.

        ``move_cuts``: called with the ranks at which ranges are to be cut and the distance that each may be
        moved; returns the distance that each is moved. Without it, parts are as equal as possible.
        """
        assert reply is None or not absorb, "received items join the set, or an adapter answers: not both"
        self._own = own
        self._absorb = absorb
        self._cuts = cuts
        limits = limits or Limits()
        settings = ReconciliationSettings(rule, threshold, division, absorb, reply, move_cuts)
        self._facts = Facts()
        self._incoming = Incoming(limits, len(own))
        self._outgoing = Outgoing(session_id, brief=settings.brief)
        self._answers: Answers[Item, Fp] = Answers(own, settings, limits, self._outgoing)
        self.max_batches: Final = 2 + 2 * _ceil_log(len(own), division) + limits.slack_batches
        """Batches of both sides after which the session ends with `BatchCountError`."""
        self._batches = 0
        self._sent_empty = False
        self._done = False
        self._echoes = 0

    @property
    def done(self) -> bool:
        """Whether the reconciliation is complete; the machine is silent from then on."""
        return self._done

    @property
    def batches(self) -> int:
        """Number of batches of both sides so far.

        Our answer counts as soon as the remote's batch is complete.
        """
        return self._batches

    def start(self) -> list[ReconciliationMessage]:
        """Return the opening batch of the side that begins; called once, before anything is received."""
        assert not self._batches and not self._incoming.has_begun, "the opening is the first batch"
        self._batches = 1
        if not len(self._own):
            self._sent_empty = True
            self._outgoing.empty_set(can_respond=True)
        else:
            self._incoming.origin = (self._answers.open(self._cuts),)
            self._incoming.finish(self._outgoing.terminal())
        return self._outgoing.take()

    def receive(self, message: ReconciliationMessage) -> list[ReconciliationMessage]:
        """Return the answer to one message; empty while a run is open."""
        return self.receive_batch((message,))

    def receive_batch(self, messages: Iterable[ReconciliationMessage]) -> list[ReconciliationMessage]:
        """Return the answers to many messages: any part of a batch, or, which is fastest, a whole one.

        Equivalent to `receive` for each message, but without ``absorb`` the set is queried once for all of
        them.
        """
        incoming, facts, absorb = self._incoming, self._facts, self._absorb
        closed: list[Closed] = []
        for message in messages:
            if self._done:
                self._receive_echo(message)
                continue
            incoming.count()
            kind = type(message)
            if kind is LowerBound:
                assert isinstance(message, LowerBound)
                incoming.begin(message)
                self._outgoing.lower_bound(message.value)
            elif kind is Terminal:
                self._answer(closed)
                closed = []
                self._receive_terminal()
            elif kind is EmptySet:
                assert isinstance(message, EmptySet)
                self._receive_empty_set(message)
            else:
                closed_range = incoming.read(message, facts)
                if closed_range is not None:
                    closed.append(closed_range)
                    if absorb:
                        # Received items join the set and affect the ranges that follow.
                        self._answer(closed)
                        closed = []
        self._answer(closed)
        return self._outgoing.take()

    def take_facts(self) -> Facts:
        """Return what was learnt since the last call."""
        facts, self._facts = self._facts, Facts()
        return facts

    def _answer(self, closed: list[Closed]) -> None:
        if closed:
            assert self._incoming.origin is not None
            self._answers.answer(closed, self._incoming.origin[0], self._facts)

    def _receive_terminal(self) -> None:
        if self._sent_empty and not self._incoming.in_ranges:
            # The remote's items arrive by other means.
            self._done = True
            return
        asks = self._outgoing.asks
        self._count_batch()
        self._incoming.finish(self._outgoing.terminal())
        self._done = not asks

    def _count_batch(self) -> None:
        """Count the remote's batch, which is complete, and our batch that answers it."""
        self._batches += 2
        if self._batches > self.max_batches:
            raise BatchCountError(f"more than {self.max_batches} batches")

    def _receive_empty_set(self, message: EmptySet) -> None:
        if message.can_respond:
            self._answer_empty_set()
        elif not self._sent_empty:
            raise UnexpectedEmptySetError("an empty set in answer to a set that is not empty")
        else:
            if self._absorb:
                # range-reconcile is done only when it receives this.
                self._outgoing.empty_set(can_respond=False)
            self._done = True
        self._batches += 2

    def _answer_empty_set(self) -> None:
        """Answer a remote that begins and holds nothing."""
        if self._batches or self._incoming.origin is not None:
            raise UnexpectedEmptySetError("an empty set in the middle of a session")
        if not len(self._own):
            self._sent_empty = True
            self._outgoing.empty_set(can_respond=False)
            self._done = not self._absorb
            return
        if self._absorb:
            self._answers.show_all()
        # Without `absorb`, all items reach the remote by other means: no range needs a comparison.
        self._outgoing.terminal()
        self._done = True

    def _receive_echo(self, message: ReconciliationMessage) -> None:
        """Check a message after the end.

        Anything may follow only with the published algorithm, because range-reconcile never falls silent.
        """
        if self._absorb:
            return
        self._incoming.count()
        if isinstance(message, Terminal) or (isinstance(message, EmptySet) and not message.can_respond):
            self._echoes += 1
        elif not isinstance(message, LowerBound | Done):
            raise AfterDoneError(f"a {type(message).__name__} behind the end of the reconciliation")
        if self._echoes > _ECHOES_MAX:
            raise AfterDoneError("more than an echo behind the end of the reconciliation")


def _ceil_log(count: int, base: int) -> int:
    """Return the logarithm of ``count`` to ``base``, rounded up; 0 for a count below 2."""
    steps, reach = 0, 1
    while reach < count:
        reach *= base
        steps += 1
    return steps
