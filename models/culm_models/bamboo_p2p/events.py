"""Events that an end reports to its driver. Each has a stable `kind`."""

from __future__ import annotations

from dataclasses import dataclass

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.wire.messages import CancelCode, SkipReason
from culm_models.events import ReportedEvent


@dataclass(frozen=True, slots=True)
class BambooP2pEvent(ReportedEvent):
    """Base of all events."""


@dataclass(frozen=True, slots=True)
class SetupRead(BambooP2pEvent, kind="setup"):
    """The other end's setup was received: the modes and windows (bytes) in force (R2)."""

    sends_greedily: bool
    receives_greedily: bool
    send_window: int
    receive_window: int


@dataclass(frozen=True, slots=True)
class Proposed(BambooP2pEvent, kind="proposed"):
    """The other end proposed a request."""

    id: int


@dataclass(frozen=True, slots=True)
class Confirmed(BambooP2pEvent, kind="confirmed"):
    """A request was confirmed, by either end."""

    id: int


@dataclass(frozen=True, slots=True)
class OverlapDropped(BambooP2pEvent, kind="overlap_dropped"):
    """A proposal lost to an overlapping one. `mine`: this end had sent the lost proposal."""

    id: int
    mine: bool


@dataclass(frozen=True, slots=True)
class EntryVerified(BambooP2pEvent, kind="entry"):
    """A new entry was received and verified."""

    id: int
    log: LogKey
    seq_num: int


@dataclass(frozen=True, slots=True)
class PayloadVerified(BambooP2pEvent, kind="payload"):
    """A new payload is complete and verified."""

    id: int
    log: LogKey
    seq_num: int


@dataclass(frozen=True, slots=True)
class PiecesNotified(BambooP2pEvent, kind="notified"):
    """The other end passed pieces without sending them."""

    id: int
    pieces: int


@dataclass(frozen=True, slots=True)
class PayloadSkipped(BambooP2pEvent, kind="skipped"):
    """The other end skipped a payload."""

    id: int
    log: LogKey
    seq_num: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class ApologyReceived(BambooP2pEvent, kind="apology"):
    """The other end withdrew its latest piece."""

    id: int


@dataclass(frozen=True, slots=True)
class RequestCancelled(BambooP2pEvent, kind="cancelled"):
    """The other end cancelled a request."""

    id: int
    code: CancelCode


@dataclass(frozen=True, slots=True)
class RequestFreed(BambooP2pEvent, kind="freed"):
    """All four messages of a cancellation were sent and received."""

    id: int


@dataclass(frozen=True, slots=True)
class ForkFound(BambooP2pEvent, kind="fork"):
    """Two entries prove that a log is forked."""

    id: int
    log: LogKey


@dataclass(frozen=True, slots=True)
class ConnectionDropped(BambooP2pEvent, kind="dropped"):
    """The connection ended because of a violation by the other end; `code` as in `errors`.

    `log` and `evidence` are the log of a cancel with bogus evidence, and the entries in that evidence.
    """

    code: str
    number: int
    reason: str
    log: LogKey | None = None
    evidence: tuple[bytes, ...] = ()
