"""Why a connection of Bamboo Point-2-Point ends: one class a rule, with its code and its number on the wire.

`code` is the stable name; `number` is the application error code of a QUIC connection. Over channels without
close codes both are reported locally alone.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from culm_models.bamboo.log_store import LogKey
from culm_models.errors import ModelError


class BambooP2pError(ModelError, code="bamboo_p2p"):
    """The base of all that the other end can break."""

    number: ClassVar[int] = 0x0E

    def __init_subclass__(cls, *, number: int | None = None, **further: Any) -> None:
        super().__init_subclass__(**further)
        if number is not None:
            cls.number = number


class Malformed(BambooP2pError, code="bamboo_p2p.malformed", number=0x01):
    """Bytes that can never become a message."""


class CreditViolated(BambooP2pError, code="bamboo_p2p.credit", number=0x02):
    """More credit than there can be, or a request without credit."""


class IdViolated(BambooP2pError, code="bamboo_p2p.id", number=0x03):
    """A proposal whose id is of the wrong parity, or in use."""


class RequestInactive(BambooP2pError, code="bamboo_p2p.inactive", number=0x04):
    """An adjustment or cancel of a request that is not active, or a confirmation without eagerness."""


class RangeViolated(BambooP2pError, code="bamboo_p2p.range", number=0x05):
    """Sequence numbers that make no range: 0, out of order, or not in their certificate pool."""


class InterestWidened(BambooP2pError, code="bamboo_p2p.interest", number=0x06):
    """A minimum size lowered, or a maximum size raised."""


class CurrentViolated(BambooP2pError, code="bamboo_p2p.current", number=0x07):
    """Data without a current request, or a switch or cancel of a request that is not active."""


class PieceViolated(BambooP2pError, code="bamboo_p2p.piece", number=0x08):
    """Metadata where a payload must come or the reverse, more than the payload, or past the end."""


class DataUnwanted(BambooP2pError, code="bamboo_p2p.unwanted", number=0x09):
    """Data, notifies or skips that the receiver's settings forbid."""


class CompressionViolated(BambooP2pError, code="bamboo_p2p.compression", number=0x0A):
    """Compressed bytes that break the window or their stated lengths."""


class ApologyViolated(BambooP2pError, code="bamboo_p2p.apology", number=0x0B):
    """An apology for valid data, for nothing, or a second one."""


class DataInvalid(BambooP2pError, code="bamboo_p2p.invalid_data", number=0x0C):
    """Data that does not verify, from an end that must have verified it."""


class EvidenceBogus(BambooP2pError, code="bamboo_p2p.evidence", number=0x0D):
    """A cancel whose evidence proves nothing."""

    def __init__(self, message: str, log: LogKey, entries: Sequence[bytes] = ()) -> None:
        """`entries` are the bytes that came as evidence about a log."""
        super().__init__(message)
        self.log = log
        self.entries = tuple(entries)


class LimitReached(BambooP2pError, code="bamboo_p2p.limit", number=0x0E):
    """A limit of this end: too large, too slow, or too much that changes nothing."""


class CallRefused(ModelError, code="bamboo_p2p.call"):
    """The base of what this end's own caller asks for and cannot have."""


class NoCredit(CallRefused, code="bamboo_p2p.no_credit"):
    """The other end granted no further proposal."""


class Unanswered(CallRefused, code="bamboo_p2p.unanswered"):
    """An overlapping proposal of the other end waits for an answer first (R40)."""


class SparseOpen(CallRefused, code="bamboo_p2p.sparse_open"):
    """A sparse range needs an end (R30)."""


class RefusedBefore(CallRefused, code="bamboo_p2p.refused"):
    """The other end refused this very proposal before, in this connection."""


class EntryMissing(CallRefused, code="bamboo_p2p.missing"):
    """An entry that the proposal stands on is not held."""


class EndFixed(CallRefused, code="bamboo_p2p.end_fixed"):
    """End and upper pool cannot be adjusted but by the confirmation (R34)."""


class InterestFixed(CallRefused, code="bamboo_p2p.interest"):
    """A minimum size can only grow, a maximum size only shrink."""


class NoSuchRequest(CallRefused, code="bamboo_p2p.inactive"):
    """There is no such request, or it is cancelled."""


class Parked(CallRefused, code="bamboo_p2p.parked"):
    """The proposal waits until its id is free; it cannot be answered yet (R10)."""
