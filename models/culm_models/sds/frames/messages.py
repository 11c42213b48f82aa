"""The frames between the two sides of an SDS edge connection (docs/sds.md, "The edge protocol").

A *full* participant keeps its own SDS state and exchanges whole SDS messages (`SdsMessage`). The pipeline
keeps the state of a *hosted* participant: its client sends commands (`Send`) and receives events
(`EventFrame`). `cursor` belongs to the edge and is opaque to clients: None is "from now on", empty is
"everything there is", and a value from the edge is "from there on".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from culm_models.sds.wire.messages import HistoryEntry, Profile

VERSION = 1

MAX_CHANNEL_ID_BYTES = 1_024
MAX_PARTICIPANT_ID_BYTES = 1_024
MAX_MESSAGE_ID_BYTES = 1_024
MAX_HINT_BYTES = 1_024
MAX_CURSOR_BYTES = 64
MAX_SETTINGS = 64
MAX_NAME_BYTES = 64
MAX_ENTRIES = 256
MAX_HEADS = 64
MAX_WIRES = 1_024
TOKEN_BYTES = 16

Setting: TypeAlias = int | float | str | bool


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame of the serving side, with its limits."""

    version: int
    max_frame_bytes: int
    max_channels: int


@dataclass(frozen=True, slots=True)
class Join:
    """Joins a channel; hosted: as a participant kept by the pipeline, from the event number `after` on."""

    channel_id: str
    profile: Profile
    participant_id: str
    hosted: bool = False
    cursor: bytes | None = None
    after: int = 0
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to `Join`: messages of the channel arrive from now on."""

    channel_id: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything that the store held before this cursor was sent; a later `Join` may begin here.

    `present`: the store held nothing more, so later frames are live.
    """

    channel_id: str
    cursor: bytes
    present: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Leaves a channel; `final` ends a hosted participant for good."""

    channel_id: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class SdsMessage:
    """A whole SDS message of a full participant, in either direction, with its position in the store."""

    channel_id: str
    wire: bytes
    retrieval_hint: bytes | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """A message to send for a hosted participant; the token is the nonce of its message id."""

    channel_id: str
    token: bytes
    content: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """The message that was sent with this token is durable."""

    channel_id: str
    token: bytes


@dataclass(frozen=True, slots=True)
class EventFrame:
    """An event in the channel of a hosted participant; events that are only live have no number."""

    channel_id: str
    number: int | None
    kind: str
    participant_id: str | None
    message_id: str
    time_ms: int
    details: Mapping[str, object]
    content: bytes | None = None
    cursor: bytes | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Requests messages by id, with a hint if known; `request` is the requester's own number."""

    channel_id: str
    request: int
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A part of the requested messages, whole, with their hints; `more`: further parts follow."""

    channel_id: str
    request: int
    wires: tuple[tuple[bytes, bytes | None], ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class AskHead:
    """Requests the channel's newest messages."""

    channel_id: str


@dataclass(frozen=True, slots=True)
class Head:
    """The channel's newest messages as (Lamport timestamp, message id), in order."""

    channel_id: str
    newest: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was not executed: a stable code and a text for people; `token`: that of a refused `Send`."""

    code: str
    message: str
    channel_id: str = ""
    token: bytes | None = None


Frame: TypeAlias = (
    Hello
    | Join
    | Joined
    | Mark
    | Leave
    | SdsMessage
    | Send
    | Accepted
    | EventFrame
    | Fetch
    | Fetched
    | AskHead
    | Head
    | Refused
)
