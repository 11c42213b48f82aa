"""Messages between two ends, as immutable records ("Encodings").

Control messages negotiate which part of which log is exchanged; data messages transfer it. Numbers are
0..2**64-1. Keys have 32 bytes, hashes the size of the connection's flavour, and entries are complete and
signed. Only the form of messages is defined here; the connection's state machine validates their meaning.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MAX_SIZE: Final = 2**64 - 1


class Eagerness(IntEnum):
    """The data of a request that an end wants to be sent; two bits on the wire."""

    NOTIFY = 1
    THRESHOLD = 2
    ALL = 3


class CancelCode(IntEnum):
    """The reason for which a request is cancelled; the first byte of the message."""

    REFUSED = 128
    RESOURCES = 129
    DONE = 130
    CONFIRMED = 131
    MANDATORY = 132
    HASH_MISMATCH = 133
    END_OF_LOG = 134
    FORKED = 135


class SkipReason(IntEnum):
    """The reason for which a payload is skipped; the byte of the message."""

    TOO_SMALL = 4
    TOO_LARGE = 5
    UNAVAILABLE = 6


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message of an end: the modes that it wants, and its windows in bytes (R3)."""

    sends_greedily: bool
    accepts_greedy: bool
    send_window: int
    receive_window: int


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to send `credit` further proposals."""

    credit: int


@dataclass(frozen=True, slots=True)
class Propose:
    """A request for a range of a log (R18). If `end` is None, the range is open.

    `upper` is present if `end` is. `lower` is None if an `offset` into the payload of `start` replaces it.
    `expected_hash` is present if there is an `offset` or if `lower` is not 1 (R22). `threshold` is present
    only with the eagerness THRESHOLD.
    """

    id: int
    public_key: bytes
    log_id: int
    start: int
    lower: int | None
    min_size: int
    max_size: int
    expected_hash: bytes | None
    eagerness: Eagerness
    threshold: int | None = None
    end: int | None = None
    upper: int | None = None
    offset: int | None = None
    payload_only: bool = False
    sparse: bool = False
    mandatory: bool = False


@dataclass(frozen=True, slots=True)
class Adjust:
    """New settings of a request. The first one by the end that did not propose confirms the request."""

    id: int
    eagerness: Eagerness | None = None
    threshold: int | None = None
    may_skip: bool = False
    end: int | None = None
    upper: int | None = None
    min_size: int | None = None
    max_size: int | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """The end of a request (R19). Code 134 has a `seq_num`; 133 has one signed entry, 135 has two (R20)."""

    id: int
    code: CancelCode
    seq_num: int | None = None
    entries: tuple[bytes, ...] = ()


ControlMessage = Grant | Propose | Adjust | Cancel


@dataclass(frozen=True, slots=True)
class Switch:
    """The following data belongs to this request."""

    id: int


@dataclass(frozen=True, slots=True)
class Notify:
    """A number of pieces is passed without being sent."""

    pieces: int


@dataclass(frozen=True, slots=True)
class Skip:
    """The payload is skipped."""

    reason: SkipReason


@dataclass(frozen=True, slots=True)
class SkipBytes:
    """Bytes of the payload are skipped, to catch up with the other end."""

    length: int


@dataclass(frozen=True, slots=True)
class RawPayload:
    """The head of `length` bytes of payload, which follow uncompressed."""

    length: int


@dataclass(frozen=True, slots=True)
class CompressedPayload:
    """The head of `length` bytes of payload, which follow as `compressed_length` bytes of LZFoo."""

    length: int
    compressed_length: int


@dataclass(frozen=True, slots=True)
class Apology:
    """The latest piece of the current request was invalid and counts as never sent."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The last data message of a request."""

    id: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """An entry without the fields that the receiver knows: author, log, number and lipmaa link (R51)."""

    end_of_log: bool
    backlink: bytes | None
    payload_size: int
    payload_hash: bytes
    signature: bytes


DataMessage = (
    Switch | Notify | Skip | SkipBytes | RawPayload | CompressedPayload | Apology | Cancelled | Metadata
)
