"""The messages of range-based set reconciliation; p2panda's types 20 to 26 are these (p2panda.md, 5.2).

One side's batch walks the ring once: the lower bound of a message is the upper bound of the one before it,
and that of the first is what `LowerBound` says. Items, bounds and fingerprints are those of the ordered set
in use; the messages only carry them. `session_id` names the session where one link carries several.

They are made by the thousand; `culm_models.frozen` makes them at the price of plain objects, for which their
base has no slots.
"""

from dataclasses import dataclass
from typing import Any

from culm_models.errors import ModelError


class ReconciliationError(ModelError, code="reconciliation"):
    """A remote that does not keep to set reconciliation, or asks too much of it."""


class LowerBoundMissingError(ReconciliationError, code="reconciliation.lower_bound_missing"):
    """A message about a range before the batch said where it begins."""


class BoundOrderError(ReconciliationError, code="reconciliation.bound_order"):
    """A range that does not lie behind the one before it, or a batch that begins elsewhere."""


class RunUnfinishedError(ReconciliationError, code="reconciliation.run_unfinished"):
    """A payload series without its end: another message came, or half of an end."""


class RangeDoneError(ReconciliationError, code="reconciliation.range_done"):
    """More is said about a range in which nothing was left open."""


class UnexpectedEmptySetError(ReconciliationError, code="reconciliation.empty_set"):
    """An empty set message anywhere but at the start."""


class AfterDoneError(ReconciliationError, code="reconciliation.after_done"):
    """A message behind the end of the reconciliation that is not the echo of our last batch."""


class BatchCountError(ReconciliationError, code="reconciliation.batch_count"):
    """More batches than any two sets need."""


class MessageCountError(ReconciliationError, code="reconciliation.message_count"):
    """More messages in one batch than are taken."""


class RunSizeError(ReconciliationError, code="reconciliation.run_size"):
    """More items of one range than are taken."""


class ItemCountError(ReconciliationError, code="reconciliation.item_count"):
    """Items are asked for again and again."""


class ReconciliationMessage:
    """The base of the messages of set reconciliation; on the wire there are only those below it."""

    __slots__ = ()

    session_id: int


@dataclass(frozen=True, slots=True)
class EmptySet(ReconciliationMessage):
    """The sender holds nothing at all; with `can_respond` it asks for what there is."""

    session_id: int
    can_respond: bool


@dataclass(frozen=True, slots=True)
class LowerBound(ReconciliationMessage):
    """Where the first range of the batch begins."""

    session_id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Payload(ReconciliationMessage):
    """One item of a range; those of a range come one after the other and are called a run.

    `can_respond` and `upper_bound` are the two halves of the range's end: the last item of a run has both,
    the items before it have neither. p2panda's grammar lets `upper_bound` alone be left out too.
    """

    session_id: int
    value: Any
    can_respond: bool | None = None
    upper_bound: Any = None

    def __post_init__(self) -> None:
        # By its place in the array on the wire, an upper bound has an answer to `can_respond` before it.
        assert self.upper_bound is None or self.can_respond is not None, "an upper bound without can_respond"


@dataclass(frozen=True, slots=True)
class EmptyPayload(ReconciliationMessage):
    """The sender holds nothing of this range and asks for what there is."""

    session_id: int
    upper_bound: Any


@dataclass(frozen=True, slots=True)
class Done(ReconciliationMessage):
    """Nothing more is to be said about this range."""

    session_id: int
    upper_bound: Any


@dataclass(frozen=True, slots=True)
class Fingerprint(ReconciliationMessage):
    """What the sender's items of this range come to."""

    session_id: int
    fingerprint: Any
    upper_bound: Any


@dataclass(frozen=True, slots=True)
class Terminal(ReconciliationMessage):
    """The batch is complete."""

    session_id: int
