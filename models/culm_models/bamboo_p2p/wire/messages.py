"""What two ends say to each other, as immutable messages ("Encodings").

Control messages settle which part of which log is exchanged; data messages carry it. Numbers are 0..2**64-1;
keys have 32 bytes, hashes the size of the connection's flavour, entries are whole and in their signed form.
What a message means, the machine of a connection judges; here it only has a form.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MAX_SIZE: Final = 2**64 - 1


class Eagerness(IntEnum):
    """What an end asks to be sent of a request; the two bits of the wire."""

    NOTIFY = 1
    THRESHOLD = 2
    ALL = 3


class CancelCode(IntEnum):
    """Why a request is cancelled; the first byte of the message."""

    REFUSED = 128
    RESOURCES = 129
    DONE = 130
    CONFIRMED = 131
    MANDATORY = 132
    HASH_MISMATCH = 133
    END_OF_LOG = 134
    FORKED = 135


class SkipReason(IntEnum):
    """Why a payload is passed over; the byte of the message."""

    TOO_SMALL = 4
    TOO_LARGE = 5
    UNAVAILABLE = 6


@dataclass(frozen=True, slots=True)
class Setup:
    """What an end conveys before everything else: the modes it wants, and its windows in bytes (R3)."""

    sends_greedily: bool
    accepts_greedy: bool
    send_window: int
    receive_window: int


@dataclass(frozen=True, slots=True)
class Grant:
    """So many further proposals may be sent."""

    credit: int


@dataclass(frozen=True, slots=True)
class Propose:
    """A request for a range of a log (R18). `end` None: open. `upper` stands beside `end`.

    `lower` is None where an `offset` into the payload of `start` takes its place. `expected_hash` is there
    when an `offset` is, or when `lower` is not 1 (R22). `threshold` is there with that eagerness alone.
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
    """New settings of a request; the first one of the end that did not propose confirms it."""

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
    """A request ends (R19). 134 has `seq_num`; 133 one entry, 135 two, in their signed form (R20)."""

    id: int
    code: CancelCode
    seq_num: int | None = None
    entries: tuple[bytes, ...] = ()


ControlMessage = Grant | Propose | Adjust | Cancel


@dataclass(frozen=True, slots=True)
class Switch:
    """What follows is about this request."""

    id: int


@dataclass(frozen=True, slots=True)
class Notify:
    """So many pieces are passed without being sent."""

    pieces: int


@dataclass(frozen=True, slots=True)
class Skip:
    """The payload is passed over."""

    reason: SkipReason


@dataclass(frozen=True, slots=True)
class SkipBytes:
    """So many bytes of the payload are passed over, to catch up with the other end."""

    length: int


@dataclass(frozen=True, slots=True)
class RawPayload:
    """The head of so many bytes of payload, which follow as they are."""

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
    """No further data of this request will come."""

    id: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """An entry without what the receiver knows: author, log, number and lipmaalink (R51)."""

    end_of_log: bool
    backlink: bytes | None
    payload_size: int
    payload_hash: bytes
    signature: bytes


DataMessage = (
    Switch | Notify | Skip | SkipBytes | RawPayload | CompressedPayload | Apology | Cancelled | Metadata
)
