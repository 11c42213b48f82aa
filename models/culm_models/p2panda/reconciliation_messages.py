"""The messages of set reconciliation (specification "replication", 2.1: message types 20 to 26).

One side's batch walks the sync range: the lower bound of a message is the upper bound of the one before it,
and that of the first is what `LowerBound` says. Values are checked in `reconciliation_codec`.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from culm_models.p2panda.messages import ReconciliationMessage

TYPE_EMPTY_SET: Final = 20
TYPE_LOWER_BOUND: Final = 21
TYPE_PAYLOAD: Final = 22
TYPE_EMPTY_PAYLOAD: Final = 23
TYPE_DONE: Final = 24
TYPE_FINGERPRINT: Final = 25
TYPE_TERMINAL: Final = 26

MAX_FINGERPRINT_BYTES: Final = 64

Item: TypeAlias = tuple[bytes, int, int]
"""A member of the sync range: public key (32 bytes), log id, sequence number from 1. In a `Payload` the
sequence number may be 0: the sender holds nothing of that log."""

Bound: TypeAlias = tuple[bytes, int, int]
"""An end of a range: as an item, but the sequence number may be 0, which is before all items of that log."""


@dataclass(frozen=True, slots=True)
class EmptySet(ReconciliationMessage):
    """The sender holds nothing of the session's schemas; with `can_respond` it asks for what there is."""

    can_respond: bool


@dataclass(frozen=True, slots=True)
class LowerBound(ReconciliationMessage):
    """Where the first range of the batch begins."""

    value: Bound


@dataclass(frozen=True, slots=True)
class Payload(ReconciliationMessage):
    """One item of a range; those of a range come one after the other.

    `can_respond` and `upper_bound` are the two halves of the range's end: the last item has both, the items
    before it have neither. The grammar lets `upper_bound` alone be left out too, and so may a remote.
    """

    value: Item
    can_respond: bool | None = None
    upper_bound: Bound | None = None

    def __post_init__(self) -> None:
        # By its place in the array, an upper bound has an answer to `can_respond` before it.
        assert self.upper_bound is None or self.can_respond is not None, "an upper bound without can_respond"


@dataclass(frozen=True, slots=True)
class EmptyPayload(ReconciliationMessage):
    """The sender holds nothing of this range and asks for what there is."""

    upper_bound: Bound


@dataclass(frozen=True, slots=True)
class Done(ReconciliationMessage):
    """Nothing more is to be said about this range."""

    upper_bound: Bound


@dataclass(frozen=True, slots=True)
class Fingerprint(ReconciliationMessage):
    """What the sender's items of this range come to: at most `MAX_FINGERPRINT_BYTES` bytes."""

    fingerprint: bytes
    upper_bound: Bound


@dataclass(frozen=True, slots=True)
class Terminal(ReconciliationMessage):
    """The batch is complete."""
