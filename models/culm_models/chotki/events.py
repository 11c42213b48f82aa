"""Events that a session reports to its driver; each has a stable `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from culm_models.chotki.ids import Id
from culm_models.events import ReportedEvent


class SyncState(StrEnum):
    """The states of a session, with the names of the specification (reference 4.0)."""

    HANDSHAKE = "SendHandshake"
    DIFF = "SendDiff"
    LIVE = "SendLive"
    PING = "SendPing"
    PONG = "SendPong"
    EOF = "SendEOF"
    NONE = "SendNone"


@dataclass(frozen=True, slots=True)
class SessionEvent(ReportedEvent):
    """Base class of all session events."""


@dataclass(frozen=True, slots=True)
class StateEntered(SessionEvent, kind="state"):
    """The session entered a state."""

    state: SyncState


@dataclass(frozen=True, slots=True)
class PeerKnown(SessionEvent, kind="handshake"):
    """The peer's handshake arrived. `peer`: its T; `live`: both ends want live packets."""

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
    """A handshake announced diffs, either of the peer itself or of a replica behind it."""

    t: Id


@dataclass(frozen=True, slots=True)
class SyncCommitted(SessionEvent, kind="sync_committed"):
    """V arrived: all diffs of the sync took effect together. They had `fields` fields in `blocks` blocks."""

    t: Id
    fields: int
    blocks: int


@dataclass(frozen=True, slots=True)
class SyncDropped(SessionEvent, kind="sync_dropped"):
    """A forwarded sync was forgotten because its diffs stopped arriving."""

    t: Id
    code: str


@dataclass(frozen=True, slots=True)
class PingReceived(SessionEvent, kind="ping"):
    """The peer sent a ping."""


@dataclass(frozen=True, slots=True)
class PongReceived(SessionEvent, kind="pong"):
    """The peer answered a ping."""


@dataclass(frozen=True, slots=True)
class ByeReceived(SessionEvent, kind="bye"):
    """The peer ended the session."""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionRefused(SessionEvent, kind="refused"):
    """This end ended the session: it refused a record, or an expected record did not arrive.

    `record`: the refused record; empty if nothing arrived or the bytes are not a record.
    """

    code: str
    message: str
    record: bytes = b""


@dataclass(frozen=True, slots=True)
class OwnSource(SessionEvent, kind="own_source"):
    """A new id of this replica's source arrived: an edit from before a crash, or of a second user."""

    id: Id


@dataclass(frozen=True, slots=True)
class Loop(SessionEvent, kind="loop"):
    """A packet of this replica's sync returned: the tree of replicas has a cycle. The packet is dropped."""

    t: Id


@dataclass(frozen=True, slots=True)
class Unwanted(SessionEvent, kind="unwanted"):
    """A packet was dropped because the agreed modes do not allow it to be applied."""

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
    """The transport ended; unfinished exchanges are forgotten."""
