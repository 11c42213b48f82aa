"""Errors that end a connection of Bamboo Point-2-Point: one class per rule, with its code and wire number.

`code` is the stable name; `number` is the application error code of a QUIC connection. Over channels without
close codes, both are reported locally only.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from culm_models.bamboo.log_store import LogKey
from culm_models.errors import ModelError


class BambooP2pError(ModelError, code="bamboo_p2p"):
    """Base of all violations by the other end."""

    number: ClassVar[int] = 0x0E

    def __init_subclass__(cls, *, number: int | None = None, **further: Any) -> None:
        super().__init_subclass__(**further)
        if number is not None:
            cls.number = number


class Malformed(BambooP2pError, code="bamboo_p2p.malformed", number=0x01):
    """Bytes that can never become a message."""


class CreditViolated(BambooP2pError, code="bamboo_p2p.credit", number=0x02):
    """A grant beyond the largest possible credit, or a proposal without credit."""


class IdViolated(BambooP2pError, code="bamboo_p2p.id", number=0x03):
    """A proposal whose id has the wrong parity or is in use."""


class RequestInactive(BambooP2pError, code="bamboo_p2p.inactive", number=0x04):
    """An adjustment or cancel of a request that is not active, or a confirmation without eagerness."""


class RangeViolated(BambooP2pError, code="bamboo_p2p.range", number=0x05):
    """Sequence numbers that are not a range: 0, out of order, or not in their certificate pool."""


class InterestWidened(BambooP2pError, code="bamboo_p2p.interest", number=0x06):
    """An adjustment that lowers the minimum size or raises the maximum size."""


class CurrentViolated(BambooP2pError, code="bamboo_p2p.current", number=0x07):
    """Data without a current request, or a switch or cancel of a request that is not active."""


class PieceViolated(BambooP2pError, code="bamboo_p2p.piece", number=0x08):
    """Metadata in place of a payload or the reverse, more bytes than the payload, or data past the end."""


class DataUnwanted(BambooP2pError, code="bamboo_p2p.unwanted", number=0x09):
    """Data, notifies or skips that the receiver's settings forbid."""


class CompressionViolated(BambooP2pError, code="bamboo_p2p.compression", number=0x0A):
    """Compressed bytes that break the window or their stated lengths."""


class ApologyViolated(BambooP2pError, code="bamboo_p2p.apology", number=0x0B):
    """An apology for valid data, for nothing, or a second one."""


class DataInvalid(BambooP2pError, code="bamboo_p2p.invalid_data", number=0x0C):
    """Data that does not verify, from an end that must have verified it."""


class EvidenceBogus(BambooP2pError, code="bamboo_p2p.evidence", number=0x0D):
    """A cancel whose evidence does not prove its claim."""

    def __init__(self, message: str, log: LogKey, entries: Sequence[bytes] = ()) -> None:
        """Create the error; `entries` are the bytes received as evidence about a log."""
        super().__init__(message)
        self.log = log
        self.entries = tuple(entries)


class LimitReached(BambooP2pError, code="bamboo_p2p.limit", number=0x0E):
    """A limit of this end: data that is too large or too late, or too many messages that change nothing."""


class CallRefused(ModelError, code="bamboo_p2p.call"):
    """Base of the errors for calls of this end's own driver that cannot be carried out."""


class NoCredit(CallRefused, code="bamboo_p2p.no_credit"):
    """The other end has not granted a further proposal."""


class Unanswered(CallRefused, code="bamboo_p2p.unanswered"):
    """An overlapping proposal of the other end waits for an answer first (R40)."""


class SparseOpen(CallRefused, code="bamboo_p2p.sparse_open"):
    """A sparse range needs an end (R30)."""


class RefusedBefore(CallRefused, code="bamboo_p2p.refused"):
    """The other end refused the same proposal earlier on this connection."""


class EntryMissing(CallRefused, code="bamboo_p2p.missing"):
    """An entry that the proposal requires is not held."""


class EndFixed(CallRefused, code="bamboo_p2p.end_fixed"):
    """End and upper pool can only be adjusted by the confirmation (R34)."""


class InterestFixed(CallRefused, code="bamboo_p2p.interest"):
    """A minimum size can only grow, a maximum size only shrink."""


class NoSuchRequest(CallRefused, code="bamboo_p2p.inactive"):
    """The request does not exist or is cancelled."""


class Parked(CallRefused, code="bamboo_p2p.parked"):
    """The proposal waits until its id is free; it cannot be answered yet (R10)."""
