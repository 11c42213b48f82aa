"""What the SDS driver keeps of one connection: its channels, its outbox and its limits."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from culm_connectors.limits import TokenBucket
from culm_connectors.sds import wire
from culm_connectors.sds.backbone import Outgoing
from culm_connectors.sds.frames import Frame, Setting
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.interface import Connection
from culm_models.sds.messages import Profile
from culm_topics.records import TOKEN_SIZE, SdsCommandRecord

_MINUTE_S = 60.0

Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class LinkEnded(Exception):
    """Ends the tasks of one connection: `close_code` and the text are what the remote is told."""

    def __init__(self, code: CloseCode, reason: str = "") -> None:
        super().__init__(reason)
        self.close_code = code


@dataclass(slots=True)
class Membership:
    """One connection's place in one channel; `start` makes a task that the connection's end cancels."""

    link: Link
    channel_id: str
    profile: Profile
    participant_id: str
    hosted: bool
    start: Start
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the join has succeeded or failed."""
    following: bool = False
    """Whether the backbone hears the channel for it."""
    live: bool = False
    """Whether it has been brought to the present; a hosted one hears events live only then."""
    last: int | None = None
    """Hosted: the number of the last event that was passed on or passed over; None: before the first."""
    cursor: bytes = b""
    """Hosted: the cursor behind that event."""
    on_behind: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Hosted: reads what was missed."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that ends with the membership."""
        task = self.start(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def behind(self) -> None:
        """Something was missed: read it."""
        if self.on_behind is not None:
            self.do(self.on_behind())

    def command(
        self, kind: Literal["join", "leave"], settings: Mapping[str, Setting] | None = None
    ) -> Outgoing:
        """A command of this participant to the job, with a token of its own."""
        record = SdsCommandRecord(
            kind,
            self.profile,
            self.participant_id,
            secrets.token_bytes(TOKEN_SIZE),
            settings=dict(settings or {}),
        )
        return Outgoing(self.channel_id, record)


class Link:
    """One connection to one remote. What is said to it waits in `outbox`, bounded in bytes."""

    def __init__(self, connection: Connection, settings: SdsEdgeSettings, now_s: float) -> None:
        self.connection = connection
        self.remote = connection.peer_id
        self.name = self.remote.hex()[:16]
        self.letting_go = False
        self.memberships: dict[str, Membership] = {}
        self.outbox: deque[bytes] = deque()
        self.outbox_bytes = 0
        self.wake = asyncio.Event()
        """Set when something waits to be written."""
        self.drained = asyncio.Event()
        """Set when the outbox has room again."""
        self.catching_up = asyncio.Semaphore(1)
        """One channel's past at a time, so that nobody takes the turns of others by joining many."""
        self.staged = 0
        """Records of this connection that wait for Kafka."""
        self.requests = 0
        """Fetches of this connection under way."""
        self._max_outbox_bytes = settings.max_outbox_bytes
        self.messages = TokenBucket(settings.messages_per_second, settings.message_burst, updated_s=now_s)
        self.lookups = TokenBucket(settings.lookups_per_second, settings.lookup_burst, updated_s=now_s)
        self.rejects = TokenBucket(
            settings.rejects_per_minute / _MINUTE_S, max(1.0, settings.rejects_per_minute), updated_s=now_s
        )

    def say(self, frame: Frame) -> bool:
        """Have a frame written; False where too much waits already, and nothing was added."""
        return self.put(wire.encode(frame))

    def put(self, data: bytes) -> bool:
        """The same for the bytes of a frame, which several connections may share."""
        if self.outbox and self.outbox_bytes + len(data) > self._max_outbox_bytes:
            return False
        self.outbox.append(data)
        self.outbox_bytes += len(data)
        self.wake.set()
        return True

    def take(self, max_bytes: int) -> bytes:
        """What waits, up to about `max_bytes`."""
        parts: list[bytes] = []
        size = 0
        while self.outbox and (not parts or size + len(self.outbox[0]) <= max_bytes):
            parts.append(self.outbox.popleft())
            size += len(parts[-1])
        self.outbox_bytes -= size
        if self.has_room:
            self.drained.set()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def has_room(self) -> bool:
        """Whether the outbox is at most half full: for what can wait, unlike what happens now."""
        return self.outbox_bytes <= self._max_outbox_bytes // 2

    async def room(self) -> None:
        """Wait until it has room."""
        while not self.has_room:
            self.drained.clear()
            await self.drained.wait()
