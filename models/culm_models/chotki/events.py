"""What a session reports to its driver: each event has a stable `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from culm_models.chotki.ids import Id


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
class SessionEvent:
    """The base."""

    kind: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class StateEntered(SessionEvent):
    """The session is in another state now."""

    kind: ClassVar[str] = "state"
    state: SessionState


@dataclass(frozen=True, slots=True)
class PeerKnown(SessionEvent):
    """The peer's handshake came. `peer`: its T; `live`: both ends want live packets."""

    kind: ClassVar[str] = "handshake"
    peer: Id
    mode: int
    live: bool
    trace: bytes


@dataclass(frozen=True, slots=True)
class PacketApplied(SessionEvent):
    """A live packet took effect."""

    kind: ClassVar[str] = "packet"
    letter: str
    id: Id


@dataclass(frozen=True, slots=True)
class SyncOpened(SessionEvent):
    """A handshake announced diffs: of the peer itself, or of a replica behind it."""

    kind: ClassVar[str] = "sync_opened"
    t: Id


@dataclass(frozen=True, slots=True)
class SyncCommitted(SessionEvent):
    """V came: all diffs of the sync took effect together. `fields` of them in so many `blocks`."""

    kind: ClassVar[str] = "sync_committed"
    t: Id
    fields: int
    blocks: int


@dataclass(frozen=True, slots=True)
class SyncDropped(SessionEvent):
    """A forwarded sync whose diffs stopped coming was forgotten."""

    kind: ClassVar[str] = "sync_dropped"
    t: Id
    code: str


@dataclass(frozen=True, slots=True)
class PingReceived(SessionEvent):
    """The peer asks whether this end is there."""

    kind: ClassVar[str] = "ping"


@dataclass(frozen=True, slots=True)
class PongReceived(SessionEvent):
    """The peer is there."""

    kind: ClassVar[str] = "pong"


@dataclass(frozen=True, slots=True)
class ByeReceived(SessionEvent):
    """The peer ended the session."""

    kind: ClassVar[str] = "bye"
    reason: str


@dataclass(frozen=True, slots=True)
class Refused(SessionEvent):
    """What came was refused, or what had to come did not: this end ended the session.

    `record`: what was refused, empty for what did not come or is no record.
    """

    kind: ClassVar[str] = "refused"
    code: str
    message: str
    record: bytes = b""


@dataclass(frozen=True, slots=True)
class OwnSource(SessionEvent):
    """An id of the own source beyond the counter came: edits of before a crash, or a second user of it."""

    kind: ClassVar[str] = "own_source"
    id: Id


@dataclass(frozen=True, slots=True)
class Loop(SessionEvent):
    """A packet of an own sync came round: the tree of replicas has a circle. It is dropped."""

    kind: ClassVar[str] = "loop"
    t: Id


@dataclass(frozen=True, slots=True)
class Unwanted(SessionEvent):
    """A packet that the modes keep from being applied was dropped."""

    kind: ClassVar[str] = "unwanted"
    letter: str


@dataclass(frozen=True, slots=True)
class Quarantined(SessionEvent):
    """A field of a diff was left out because its value does not parse (setting `unreadable_values`)."""

    kind: ClassVar[str] = "quarantined"
    id: Id
    letter: str
    value: bytes
    code: str


@dataclass(frozen=True, slots=True)
class ConnectionLost(SessionEvent):
    """The transport ended; what was under way is forgotten."""

    kind: ClassVar[str] = "lost"
