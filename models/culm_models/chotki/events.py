"""What a session reports to its driver: each event has a stable `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from culm_models.chotki.ids import Id
from culm_models.events import ReportedEvent


class SessionState(StrEnum):
    """The states of a session, named as the specification names them (reference 4.0)."""

    HANDSHAKE = "SendHandshake"
    DIFF = "SendDiff"
    LIVE = "SendLive"
    PING = "SendPing"
    PONG = "SendPong"
    EOF = "SendEOF"
    NONE = "SendNone"


@dataclass(frozen=True, slots=True)
class SessionEvent(ReportedEvent):
    """The base."""


@dataclass(frozen=True, slots=True)
class StateEntered(SessionEvent, kind="state"):
    """The session is in another state now."""

    state: SessionState


@dataclass(frozen=True, slots=True)
class PeerKnown(SessionEvent, kind="handshake"):
    """The peer's handshake came. `peer`: its T; `live`: both ends want live packets."""

    peer: Id
    mode: int
    live: bool
    trace: bytes


@dataclass(frozen=True, slots=True)
class PacketApplied(SessionEvent, kind="packet"):
    """A live packet took effect."""

    letter: str
    id: Id


@dataclass(frozen=True, slots=True)
class SyncOpened(SessionEvent, kind="sync_opened"):
    """A handshake announced diffs: of the peer itself, or of a replica behind it."""

    t: Id


@dataclass(frozen=True, slots=True)
class SyncCommitted(SessionEvent, kind="sync_committed"):
    """V came: all diffs of the sync took effect together. `fields` of them in so many `blocks`."""

    t: Id
    fields: int
    blocks: int


@dataclass(frozen=True, slots=True)
class SyncDropped(SessionEvent, kind="sync_dropped"):
    """A forwarded sync whose diffs stopped coming was forgotten."""

    t: Id
    code: str


@dataclass(frozen=True, slots=True)
class PingReceived(SessionEvent, kind="ping"):
    """The peer asks whether this end is there."""


@dataclass(frozen=True, slots=True)
class PongReceived(SessionEvent, kind="pong"):
    """The peer is there."""


@dataclass(frozen=True, slots=True)
class ByeReceived(SessionEvent, kind="bye"):
    """The peer ended the session."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused(SessionEvent, kind="refused"):
    """What came was refused, or what had to come did not: this end ended the session.

    `record`: what was refused, empty for what did not come or is no record.
    """

    code: str
    message: str
    record: bytes = b""


@dataclass(frozen=True, slots=True)
class OwnSource(SessionEvent, kind="own_source"):
    """An id of the own source beyond the counter came: edits of before a crash, or a second user of it."""

    id: Id


@dataclass(frozen=True, slots=True)
class Loop(SessionEvent, kind="loop"):
    """A packet of an own sync came round: the tree of replicas has a circle. It is dropped."""

    t: Id


@dataclass(frozen=True, slots=True)
class Unwanted(SessionEvent, kind="unwanted"):
    """A packet that the modes keep from being applied was dropped."""

    letter: str


@dataclass(frozen=True, slots=True)
class Quarantined(SessionEvent, kind="quarantined"):
    """A field of a diff was left out because its value does not parse (setting `unreadable_values`)."""

    id: Id
    letter: str
    value: bytes
    code: str


@dataclass(frozen=True, slots=True)
class ConnectionLost(SessionEvent, kind="lost"):
    """The transport ended; what was under way is forgotten."""
