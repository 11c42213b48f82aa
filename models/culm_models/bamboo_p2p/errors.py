"""Why a connection of Bamboo Point-2-Point ends: one class a rule, with its code and its number on the wire.

`code` is the stable name; `number` is the application error code of a QUIC connection. Over channels without
close codes both are reported locally alone.
"""

from collections.abc import Sequence
from typing import ClassVar

from culm_models.bamboo.log_store import LogKey
from culm_models.errors import ModelError


class BambooP2pError(ModelError):
    """The base of all that the other end can break."""

    code: ClassVar[str] = "bamboo_p2p"
    number: ClassVar[int] = 0x0E


class Malformed(BambooP2pError):
    """Bytes that can never become a message."""

    code: ClassVar[str] = "bamboo_p2p.malformed"
    number: ClassVar[int] = 0x01


class CreditViolated(BambooP2pError):
    """More credit than there can be, or a request without credit."""

    code: ClassVar[str] = "bamboo_p2p.credit"
    number: ClassVar[int] = 0x02


class IdViolated(BambooP2pError):
    """A proposal whose id is of the wrong parity, or in use."""

    code: ClassVar[str] = "bamboo_p2p.id"
    number: ClassVar[int] = 0x03


class RequestInactive(BambooP2pError):
    """An adjustment or cancel of a request that is not active, or a confirmation without eagerness."""

    code: ClassVar[str] = "bamboo_p2p.inactive"
    number: ClassVar[int] = 0x04


class RangeViolated(BambooP2pError):
    """Sequence numbers that make no range: 0, out of order, or not in their certificate pool."""

    code: ClassVar[str] = "bamboo_p2p.range"
    number: ClassVar[int] = 0x05


class InterestWidened(BambooP2pError):
    """A minimum size lowered, or a maximum size raised."""

    code: ClassVar[str] = "bamboo_p2p.interest"
    number: ClassVar[int] = 0x06


class CurrentViolated(BambooP2pError):
    """Data without a current request, or a switch or cancel of a request that is not active."""

    code: ClassVar[str] = "bamboo_p2p.current"
    number: ClassVar[int] = 0x07


class PieceViolated(BambooP2pError):
    """Metadata where a payload must come or the reverse, more than the payload, or past the end."""

    code: ClassVar[str] = "bamboo_p2p.piece"
    number: ClassVar[int] = 0x08


class DataUnwanted(BambooP2pError):
    """Data, notifies or skips that the receiver's settings forbid."""

    code: ClassVar[str] = "bamboo_p2p.unwanted"
    number: ClassVar[int] = 0x09


class CompressionViolated(BambooP2pError):
    """Compressed bytes that break the window or their stated lengths."""

    code: ClassVar[str] = "bamboo_p2p.compression"
    number: ClassVar[int] = 0x0A


class ApologyViolated(BambooP2pError):
    """An apology for valid data, for nothing, or a second one."""

    code: ClassVar[str] = "bamboo_p2p.apology"
    number: ClassVar[int] = 0x0B


class DataInvalid(BambooP2pError):
    """Data that does not verify, from an end that must have verified it."""

    code: ClassVar[str] = "bamboo_p2p.invalid_data"
    number: ClassVar[int] = 0x0C


class EvidenceBogus(BambooP2pError):
    """A cancel whose evidence proves nothing."""

    code: ClassVar[str] = "bamboo_p2p.evidence"
    number: ClassVar[int] = 0x0D

    def __init__(self, message: str, log: LogKey, entries: Sequence[bytes] = ()) -> None:
        """`entries` are the bytes that came as evidence about a log."""
        super().__init__(message)
        self.log = log
        self.entries = tuple(entries)


class LimitReached(BambooP2pError):
    """A limit of this end: too large, too slow, or too much that changes nothing."""

    code: ClassVar[str] = "bamboo_p2p.limit"
    number: ClassVar[int] = 0x0E


class CallRefused(ModelError):
    """The base of what this end's own caller asks for and cannot have."""

    code: ClassVar[str] = "bamboo_p2p.call"


class NoCredit(CallRefused):
    """The other end granted no further proposal."""

    code: ClassVar[str] = "bamboo_p2p.no_credit"


class Unanswered(CallRefused):
    """An overlapping proposal of the other end waits for an answer first (R40)."""

    code: ClassVar[str] = "bamboo_p2p.unanswered"


class SparseOpen(CallRefused):
    """A sparse range needs an end (R30)."""

    code: ClassVar[str] = "bamboo_p2p.sparse_open"


class RefusedBefore(CallRefused):
    """The other end refused this very proposal before, in this connection."""

    code: ClassVar[str] = "bamboo_p2p.refused"


class EntryMissing(CallRefused):
    """An entry that the proposal stands on is not held."""

    code: ClassVar[str] = "bamboo_p2p.missing"


class EndFixed(CallRefused):
    """End and upper pool cannot be adjusted but by the confirmation (R34)."""

    code: ClassVar[str] = "bamboo_p2p.end_fixed"


class InterestFixed(CallRefused):
    """A minimum size can only grow, a maximum size only shrink."""

    code: ClassVar[str] = "bamboo_p2p.interest"


class NoSuchRequest(CallRefused):
    """There is no such request, or it is cancelled."""

    code: ClassVar[str] = "bamboo_p2p.inactive"


class Parked(CallRefused):
    """The proposal waits until its id is free; it cannot be answered yet (R10)."""

    code: ClassVar[str] = "bamboo_p2p.parked"
