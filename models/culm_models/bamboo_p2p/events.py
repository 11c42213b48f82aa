"""What an end reports to its driver: each event has a stable `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.wire.messages import CancelCode, SkipReason


@dataclass(frozen=True, slots=True)
class BambooP2pEvent:
    """The base."""

    kind: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class SetupRead(BambooP2pEvent):
    """The other end's setup came: the modes and windows in force, windows in bytes (R2)."""

    kind: ClassVar[str] = "setup"
    sends_greedily: bool
    receives_greedily: bool
    send_window: int
    receive_window: int


@dataclass(frozen=True, slots=True)
class Proposed(BambooP2pEvent):
    """The other end proposed a request."""

    kind: ClassVar[str] = "proposed"
    id: int


@dataclass(frozen=True, slots=True)
class Confirmed(BambooP2pEvent):
    """A request is confirmed, by either end."""

    kind: ClassVar[str] = "confirmed"
    id: int


@dataclass(frozen=True, slots=True)
class OverlapDropped(BambooP2pEvent):
    """A proposal lost to an overlapping one; `mine`: this end had sent it."""

    kind: ClassVar[str] = "overlap_dropped"
    id: int
    mine: bool


@dataclass(frozen=True, slots=True)
class EntryVerified(BambooP2pEvent):
    """An entry that was not held came, and verified."""

    kind: ClassVar[str] = "entry"
    id: int
    log: LogKey
    seq_num: int


@dataclass(frozen=True, slots=True)
class PayloadVerified(BambooP2pEvent):
    """A payload that was not held is whole, and verified."""

    kind: ClassVar[str] = "payload"
    id: int
    log: LogKey
    seq_num: int


@dataclass(frozen=True, slots=True)
class PiecesNotified(BambooP2pEvent):
    """The other end passed so many pieces without sending them."""

    kind: ClassVar[str] = "notified"
    id: int
    pieces: int


@dataclass(frozen=True, slots=True)
class PayloadSkipped(BambooP2pEvent):
    """The other end passed over a payload."""

    kind: ClassVar[str] = "skipped"
    id: int
    log: LogKey
    seq_num: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class ApologyReceived(BambooP2pEvent):
    """The other end took back its latest piece."""

    kind: ClassVar[str] = "apology"
    id: int


@dataclass(frozen=True, slots=True)
class RequestCancelled(BambooP2pEvent):
    """The other end cancelled a request."""

    kind: ClassVar[str] = "cancelled"
    id: int
    code: CancelCode


@dataclass(frozen=True, slots=True)
class RequestFreed(BambooP2pEvent):
    """All four messages of a cancellation are through."""

    kind: ClassVar[str] = "freed"
    id: int


@dataclass(frozen=True, slots=True)
class ForkFound(BambooP2pEvent):
    """Two entries prove that a log is forked."""

    kind: ClassVar[str] = "fork"
    id: int
    log: LogKey


@dataclass(frozen=True, slots=True)
class ConnectionDropped(BambooP2pEvent):
    """The connection ended for what the other end did; `code` as in `errors`.

    `log` and `evidence`: what a bogus cancel was about, and the entries that came with it.
    """

    kind: ClassVar[str] = "dropped"
    code: str
    number: int
    reason: str
    log: LogKey | None = None
    evidence: tuple[bytes, ...] = ()
