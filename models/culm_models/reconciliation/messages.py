"""The messages of range-based set reconciliation, which are p2panda's types 20 to 26 (p2panda.md, 5.2).

One side's batch walks the ring once. The lower bound of a message is the upper bound of the one before it;
`LowerBound` carries that of the first. Items, bounds and fingerprints are those of the ordered set in use;
the messages only carry them. `session_id` names the session if one link carries several.

Messages are created by the thousand. `culm_models.frozen` creates them at the cost of plain objects, which
requires that their base class has no slots.
"""

from dataclasses import dataclass
from typing import Any

from culm_models.errors import ModelError


class ReconciliationError(ModelError, code="reconciliation"):
    """Base class for a remote that breaks the rules of set reconciliation, or requires too much work."""


class LowerBoundMissingError(ReconciliationError, code="reconciliation.lower_bound_missing"):
    """A message about a range before the batch's lower bound."""


class BoundOrderError(ReconciliationError, code="reconciliation.bound_order"):
    """A range that does not end after the one before it, or a batch that begins at another bound."""


class RunUnfinishedError(ReconciliationError, code="reconciliation.run_unfinished"):
    """A run of items without its end: another message came, or only half of an end."""


class RangeDoneError(ReconciliationError, code="reconciliation.range_done"):
    """A message about a range in which nothing was left open."""


class UnexpectedEmptySetError(ReconciliationError, code="reconciliation.empty_set"):
    """An empty set message anywhere but at the start."""


class AfterDoneError(ReconciliationError, code="reconciliation.after_done"):
    """A message after the end of the reconciliation that is not the echo of our last batch."""


class BatchCountError(ReconciliationError, code="reconciliation.batch_count"):
    """More batches than any two sets need."""


class MessageCountError(ReconciliationError, code="reconciliation.message_count"):
    """More messages in one batch than are accepted."""


class RunSizeError(ReconciliationError, code="reconciliation.run_size"):
    """More items of one range than are accepted."""


class RepeatedRequestError(ReconciliationError, code="reconciliation.item_count"):
    """A remote requests the same items repeatedly."""


class ReconciliationMessage:
    """Base class of the messages of set reconciliation. Only its subclasses appear on the wire."""

    __slots__ = ()

    session_id: int


@dataclass(frozen=True, slots=True)
class EmptySet(ReconciliationMessage):
    """The sender holds no items at all; with `can_respond` it asks for ours."""

    session_id: int
    can_respond: bool


@dataclass(frozen=True, slots=True)
class LowerBound(ReconciliationMessage):
    """The bound at which the first range of the batch begins."""

    session_id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Payload(ReconciliationMessage):
    """One item of a range. The items of a range follow each other and are called a run.

    `can_respond` and `upper_bound` are the two halves of the range's end: the last item of a run has both,
    the items before it have neither. p2panda's grammar also permits `can_respond` without `upper_bound`.
    """

    session_id: int
    value: Any
    can_respond: bool | None = None
    upper_bound: Any = None

    def __post_init__(self) -> None:
        # In the array on the wire, `can_respond` comes before the upper bound.
        assert self.upper_bound is None or self.can_respond is not None, "an upper bound without can_respond"


@dataclass(frozen=True, slots=True)
class EmptyPayload(ReconciliationMessage):
    """The sender holds no items in this range and asks for ours."""

    session_id: int
    upper_bound: Any


@dataclass(frozen=True, slots=True)
class Done(ReconciliationMessage):
    """The range needs no further messages."""

    session_id: int
    upper_bound: Any


@dataclass(frozen=True, slots=True)
class Fingerprint(ReconciliationMessage):
    """The fingerprint of the sender's items in this range."""

    session_id: int
    fingerprint: Any
    upper_bound: Any


@dataclass(frozen=True, slots=True)
class Terminal(ReconciliationMessage):
    """The batch is complete."""

    session_id: int
