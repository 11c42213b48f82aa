"""What the two sides of an SDS edge connection say to each other (docs/sds.md, "The edge protocol").

A *full* participant keeps its own SDS state and exchanges whole SDS messages (`SdsMessage`). A *hosted*
one is kept by the pipeline: its client sends commands (`Send`) and receives events (`EventFrame`). `cursor`
is the edge's own, opaque to clients: None is "from now on", empty is "everything there is", and what the
edge gave is "from there on".
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
    """The serving side's first frame: its limits."""

    version: int
    max_frame_bytes: int
    max_channels: int


@dataclass(frozen=True, slots=True)
class Join:
    """Take part in a channel; hosted: as a participant that the pipeline keeps, `after` its event number."""

    channel_id: str
    profile: Profile
    participant_id: str
    hosted: bool = False
    cursor: bytes | None = None
    after: int = 0
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to `Join`: what is said in the channel from now on comes here."""

    channel_id: str


@dataclass(frozen=True, slots=True)
class Mark:
    """All that the store held before this cursor has been said; a later `Join` may begin here.

    `present`: nothing else was held, so what follows is what happens.
    """

    channel_id: str
    cursor: bytes
    present: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Hear no more of a channel; `final` ends a hosted participant for good."""

    channel_id: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class SdsMessage:
    """A whole SDS message of a full participant, either way; the hint says where it lies in the store."""

    channel_id: str
    wire: bytes
    retrieval_hint: bytes | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """A hosted participant says something; the token is the nonce of its message id."""

    channel_id: str
    token: bytes
    content: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was sent with this token will not be lost."""

    channel_id: str
    token: bytes


@dataclass(frozen=True, slots=True)
class EventFrame:
    """Something happened in the channel of a hosted participant; live-only ones have no number."""

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
    """Ask for messages by id, and hint where one is known; `request` is the asker's own number."""

    channel_id: str
    request: int
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Some of what was asked for: whole messages with the hints under which they lie; `more` follows."""

    channel_id: str
    request: int
    wires: tuple[tuple[bytes, bytes | None], ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class AskHead:
    """Ask for the channel's newest messages."""

    channel_id: str


@dataclass(frozen=True, slots=True)
class Head:
    """The channel's newest messages as (Lamport timestamp, message id), in order."""

    channel_id: str
    newest: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Something was not done: a stable code, and words for people; `token`: of the `Send` that was not."""

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
