"""One side of a reconciliation: messages in, messages out (rbsr.md, 1.3 to 1.6 and 4.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from culm_models.reconciliation.facts import Facts
from culm_models.reconciliation.limits import Limits
from culm_models.reconciliation.messages import ReconciliationMessage
from culm_models.reconciliation.ordered_set import OrderedSet, Span
from culm_models.reconciliation.rules import Rule

Item = TypeVar("Item")
Fp = TypeVar("Fp")

Reply: TypeAlias = Callable[[Sequence[Any], Span], Sequence[Any]]
"""What to show in answer to all the items that the remote has in a range of ours; see `Reconciler`."""


class Reconciler(Generic[Item, Fp]):
    """The machine of one side; it lives for one session.

    With `absorb` received items join the set, as in the published algorithm. Without it the set never
    changes, and what was learnt about the remote is told by `take_facts`.

    Errors are `ReconciliationError`s; the machine is of no use after one.
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
    ) -> None:
        """A machine over ``own``, a `GrowingSet` with ``absorb``.

        ``cuts``: sorted bounds where the opening is cut, in place of the parts that the rule makes.

        ``reply``: called with the items that the remote has in a range (none behind an `EmptyPayload`) and
        the span that the range has here; gives the items to show in answer. Left out, these are the own
        items of the range but those just received. Only without ``absorb``.
        """
        raise NotImplementedError

    @property
    def done(self) -> bool:
        """Whether nothing is left to be said: from here on the machine is silent."""
        raise NotImplementedError

    @property
    def expected_batches(self) -> int:
        """Batches of both sides after which the remote is told off."""
        raise NotImplementedError

    def start(self) -> list[ReconciliationMessage]:
        """The opening batch of the side that begins: once, before anything is received."""
        raise NotImplementedError

    def receive(self, message: ReconciliationMessage) -> list[ReconciliationMessage]:
        """What to say in answer to one message: nothing while a run is open."""
        raise NotImplementedError

    def receive_batch(self, messages: Iterable[ReconciliationMessage]) -> list[ReconciliationMessage]:
        """The answers to many messages in one go; any part of a batch is taken, a whole one is fastest.

        The same as `receive` one by one, but without ``absorb`` the set is asked once for all of them.
        """
        raise NotImplementedError

    def take_facts(self) -> Facts:
        """What was learnt since the last call."""
        raise NotImplementedError
