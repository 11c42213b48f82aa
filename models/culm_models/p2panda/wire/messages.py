"""The messages of p2panda replication (specification "replication", all message sections).

Values are checked when they are received (`codec`, `reconciliation_codec`), not here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from culm_models.reconciliation.messages import ReconciliationMessage

# A message that a reader refuses ends its stream, and with it everything after that message. Therefore
# nothing larger than `MAX_OPERATION_BYTES` is signed or accepted, nothing larger than `MAX_MESSAGE_BYTES` is
# sent to a peer, and every reader accepts at least that size.
MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
"""The largest message that is sent; every reader accepts at least this size."""

LARGEST_READ_BYTES: Final = 3 * 1024 * 1024
"""The largest configurable size for readers: p2panda nodes name all their logs in one message."""

MAX_OPERATION_BYTES: Final = MAX_MESSAGE_BYTES - 256
"""The largest operation: with the largest entry and the largest session id, it still fits in one message."""

PROTOCOL_VERSION: Final = 1

MODE_LOG_HEIGHT: Final = 0
MODE_SET_RECONCILIATION: Final = 1

TYPE_ANNOUNCE: Final = 0
TYPE_SYNC_REQUEST: Final = 1
TYPE_ENTRY: Final = 2
TYPE_SYNC_DONE: Final = 3
TYPE_HAVE: Final = 10

LogHeight: TypeAlias = tuple[bytes, int, int]
"""Public key (32 bytes), log id, and the highest sequence number up to which no entry is missing."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The schemas that a peer is interested in; `timestamp` grows with every announcement of that peer.

    `raw` holds the bytes as received, to be forwarded unchanged.
    """

    version: int
    timestamp: int
    schema_ids: tuple[str, ...]
    raw: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Opens a session about a set of schemas."""

    session_id: int
    mode: int
    schema_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryMessage:
    """One entry with its operation, both as their author encoded them."""

    session_id: int
    entry: bytes
    operation: bytes


@dataclass(frozen=True, slots=True)
class SyncDone:
    """The sender has sent everything that it had. In live mode, `live_mode` false means that it leaves."""

    session_id: int
    live_mode: bool


@dataclass(frozen=True, slots=True)
class Have:
    """Every log of the session's schemas that the sender holds, with its height."""

    session_id: int
    log_heights: tuple[LogHeight, ...]


Message: TypeAlias = Announce | SyncRequest | EntryMessage | SyncDone | Have | ReconciliationMessage


# The messages of set reconciliation are those of `culm_models.reconciliation`.

TYPE_EMPTY_SET: Final = 20
TYPE_LOWER_BOUND: Final = 21
TYPE_PAYLOAD: Final = 22
TYPE_EMPTY_PAYLOAD: Final = 23
TYPE_DONE: Final = 24
TYPE_FINGERPRINT: Final = 25
TYPE_TERMINAL: Final = 26

MAX_FINGERPRINT_BYTES: Final = 64

Item: TypeAlias = tuple[bytes, int, int]
"""A member of the sync range: public key (32 bytes), log id, sequence number from 1.

In a `Payload`, the sequence number may be 0: the sender holds no entry of that log.
"""

Bound: TypeAlias = tuple[bytes, int, int]
"""A bound of a range: like an item, or with sequence number 0, before all items of the log."""


_OFFER_START: Final = "culm_offers_0020"
_OFFER_SIZE: Final = 32
_OFFER_FORMAT: Final = 1
_COMPACT: Final = 1
_ABSENCE: Final = 2
_MODE_BITS: Final = 8
_LIFT_BITS: Final = 16


@dataclass(frozen=True, slots=True)
class Offer:
    """The optional modes and lifts (by wire code) that a peer supports, and its features.

    The specification's `Announce` has no field for modes and lifts. Every parser regards the id below as that
    of an application schema without documents, so a plain peer never announces it. Peers that know it remove
    it with `split_offer` before anything else reads the schema ids.

        culm_offers_0020 + 32 bytes in hex:

        byte 0     format, 1
        byte 1     modes: bit m for mode m
        byte 2     features: bit 0 compact form, bit 1 absence
        bytes 3-4  lifts: bit c for the lift with wire code c, big-endian
        the rest   zero; ignored when read
    """

    modes: frozenset[int]
    lifts: frozenset[int]
    compact: bool = False
    """The peer reads the compact form of the messages of set reconciliation."""
    absence: bool = True
    """The peer names logs that it was shown and does not hold; its silence means "equal"."""


def offer_marker(offer: Offer) -> str:
    """Return the schema id that encodes an offer."""
    content = bytearray(_OFFER_SIZE)
    content[0] = _OFFER_FORMAT
    content[1] = _bits(offer.modes, _MODE_BITS)
    content[2] = offer.compact * _COMPACT | offer.absence * _ABSENCE
    content[3:5] = _bits(offer.lifts, _LIFT_BITS).to_bytes(2, "big")
    return _OFFER_START + content.hex()


def is_marker(schema_id: str) -> bool:
    """Whether this schema id encodes an offer, of any format."""
    return schema_id.startswith(_OFFER_START) and len(schema_id) == len(_OFFER_START) + 2 * _OFFER_SIZE


def split_offer(schema_ids: Iterable[str]) -> tuple[tuple[str, ...], Offer | None]:
    """Return the schema ids without offers, in their order, and the first offer of a known format."""
    schemas: list[str] = []
    offer: Offer | None = None
    for schema_id in schema_ids:
        if is_marker(schema_id):
            offer = offer or _read_offer(schema_id)
        else:
            schemas.append(schema_id)
    return tuple(schemas), offer


def _read_offer(schema_id: str) -> Offer | None:
    try:
        content = bytes.fromhex(schema_id[len(_OFFER_START) :])
    except ValueError:
        return None
    if len(content) != _OFFER_SIZE or content[0] != _OFFER_FORMAT:
        return None
    return Offer(
        _set_bits(content[1]),
        _set_bits(int.from_bytes(content[3:5], "big")),
        compact=bool(content[2] & _COMPACT),
        absence=bool(content[2] & _ABSENCE),
    )


def _bits(numbers: Iterable[int], size: int) -> int:
    bits = 0
    for number in numbers:
        assert 0 <= number < size, f"{number} has no bit among {size}"
        bits |= 1 << number
    return bits


def _set_bits(bits: int) -> frozenset[int]:
    return frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)
