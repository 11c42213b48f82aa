"""The messages of set reconciliation (specification "replication", 2.1: message types 20 to 26).

They are those of the reconciliation machine, here with the numbers and values that p2panda gives them.
Values are checked in `reconciliation_codec`.
"""

from typing import Final, TypeAlias

from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)

__all__ = [
    "MAX_FINGERPRINT_BYTES",
    "TYPE_DONE",
    "TYPE_EMPTY_PAYLOAD",
    "TYPE_EMPTY_SET",
    "TYPE_FINGERPRINT",
    "TYPE_LOWER_BOUND",
    "TYPE_PAYLOAD",
    "TYPE_TERMINAL",
    "Bound",
    "Done",
    "EmptyPayload",
    "EmptySet",
    "Fingerprint",
    "Item",
    "LowerBound",
    "Payload",
    "Terminal",
]

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
