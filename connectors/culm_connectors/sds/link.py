"""The SDS driver's state of one connection: its channels, its outbox and limits, its records for Kafka."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from culm_connectors.edge.intake import IntakeLimits, MemoryOutbox
from culm_connectors.edge.serving import LinkEnded, ServedLink
from culm_connectors.sds.backbone import Backbone, OutgoingRecord
from culm_connectors.sds.budgets import PeerBudget
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.interface import Connection
from culm_models.sds.frames import codec as wire
from culm_models.sds.frames.messages import Frame, Setting
from culm_models.sds.wire.messages import Profile
from culm_topics.sds.records import TOKEN_SIZE, SdsCommandRecord, SdsInRecord

_RECORD_BYTES = 256

Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(slots=True)
class Membership:
    """One connection's membership in one channel; `start` makes a task that the connection's end cancels."""

    link: MemberLink
    channel_id: str
    profile: Profile
    participant_id: str
    hosted: bool
    start: Start
    join_token: bytes = b""
    """Hosted: the token of its join, which the job's answer names."""
    admitted: asyncio.Event = field(default_factory=asyncio.Event)
    """Hosted: set when the participant is known to be this key's. Its events are not sent before that."""
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the join has succeeded or failed."""
    following: bool = False
    """Whether the backbone follows the channel for it."""
    live: bool = False
    """Whether catch-up has finished; a hosted participant receives live events only then."""
    last: int | None = None
    """Hosted: the number of the last event that was sent or skipped; None before the first."""
    cursor: bytes = b""
    """Hosted: the cursor after that event."""
    on_behind: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Hosted: reads missed events."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that is cancelled when the membership ends."""
        task = self.start(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def behind(self) -> None:
        """Read events that were missed."""
        if self.on_behind is not None:
            self.do(self.on_behind())

    def command(
        self, kind: Literal["join", "leave", "open"], settings: Mapping[str, Setting] | None = None
    ) -> OutgoingRecord:
        """Return a command of this participant to the job, with a new token."""
        record = SdsCommandRecord(
            kind,
            self.profile,
            self.participant_id,
            secrets.token_bytes(TOKEN_SIZE),
            settings=dict(settings or {}),
            peer_id=self.link.remote,
        )
        if kind == "join":
            self.join_token = record.token
        return OutgoingRecord(self.channel_id, record)


class Unsent:
    """Counts the bytes that wait on all connections; above the limit, the one with the most is closed."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        self.links: dict[int, MemberLink] = {}
        self._max_bytes = max_bytes

    @property
    def is_too_much(self) -> bool:
        """Whether more bytes wait than the limit allows."""
        return self.bytes > self._max_bytes

    def most(self) -> MemberLink:
        """Return the connection with the most unsent bytes; there must be a connection."""
        return max(self.links.values(), key=lambda link: link.outbox_bytes)


class MemberLink(ServedLink):
    """One connection to one remote. Frames to it wait in `outbox`, bounded in bytes.

    `budget` is its key's; `let_go` ends a connection that reads too slowly.
    """

    def __init__(
        self,
        connection: Connection,
        settings: SdsEdgeSettings,
        budget: PeerBudget,
        unsent: Unsent,
        let_go: Callable[[MemberLink], None],
    ) -> None:
        super().__init__(connection)
        self.budget = budget
        self.memberships: dict[str, Membership] = {}
        self.outbox: deque[bytes] = deque()
        self.outbox_bytes = 0
        self.wake = asyncio.Event()
        """Set when something waits to be written."""
        self.drained = asyncio.Event()
        """Set when the outbox has capacity again."""
        self._settings = settings
        self._unsent = unsent
        self._let_go = let_go
        unsent.links[id(self)] = self

    def send(self, frame: Frame) -> bool:
        """Queue a frame; returns False, and ends the connection, if too much waits already."""
        return self.put(wire.encode(frame))

    def put(self, data: bytes) -> bool:
        """Queue an encoded frame, which several connections may share; otherwise as `send`."""
        if self.letting_go:
            return False
        if self.outbox and self.outbox_bytes + len(data) > self._settings.max_outbox_bytes:
            self._let_go(self)
            return False
        self.outbox.append(data)
        self.outbox_bytes += len(data)
        self._unsent.bytes += len(data)
        self.wake.set()
        while self._unsent.is_too_much:
            largest = self._unsent.most()
            largest.clear()
            self._let_go(largest)
        return not self.letting_go

    def take(self, max_bytes: int) -> bytes:
        """Take waiting data, up to about `max_bytes`."""
        parts: list[bytes] = []
        size = 0
        while self.outbox and (not parts or size + len(self.outbox[0]) <= max_bytes):
            parts.append(self.outbox.popleft())
            size += len(parts[-1])
        self.outbox_bytes -= size
        self._unsent.bytes -= size
        if self.has_capacity:
            self.drained.set()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def clear(self) -> None:
        """Discard frames that wait to be written, since the remote will not read them."""
        self._unsent.bytes -= self.outbox_bytes
        self.outbox.clear()
        self.outbox_bytes = 0

    def gone(self) -> None:
        """Release the outbox of a connection that has ended."""
        self.clear()
        self._unsent.links.pop(id(self), None)

    @property
    def has_capacity(self) -> bool:
        """Whether the outbox has capacity for history, which can also be read later."""
        settings = self._settings
        return self.outbox_bytes <= min(settings.max_unsent_past_bytes, settings.max_outbox_bytes // 2)

    async def wait_for_capacity(self) -> None:
        """Wait for capacity; ends the connection of a remote that does not read in time."""
        if self.has_capacity:
            return
        try:
            async with asyncio.timeout(self._settings.stall_timeout_s):
                while not self.has_capacity:
                    self.drained.clear()
                    await self.drained.wait()
        except TimeoutError:
            raise LinkEnded(CloseCode.OVERLOADED, "what was asked for is not read in time") from None


_Entry = tuple[OutgoingRecord, "Callable[[], None] | None"]


class Staging:
    """Records of peers that wait for Kafka: in order, bounded, and for each key at most its share.

    `run` must be running; an error of the backbone ends it.
    """

    def __init__(self, backbone: Backbone, settings: SdsEdgeSettings, metrics: SdsMetrics) -> None:
        self._backbone = backbone
        self._outbox = MemoryOutbox[_Entry](
            self._store,
            metrics,
            IntakeLimits(settings.max_staged_items, settings.max_staged_bytes),
            batch=IntakeLimits(settings.store_batch, settings.max_staged_bytes),
            share=IntakeLimits(settings.max_staged_items_per_peer, settings.max_staged_bytes_per_peer),
        )
        self.run = self._outbox.run
        self.drained = self._outbox.drained

    def add(
        self, outgoing: OutgoingRecord, link: MemberLink | None = None, done: Callable[[], None] | None = None
    ) -> None:
        """Queue a record for Kafka; `done` is called when it is durable."""
        share = None if link is None else link.budget.staged
        self._outbox.add([((outgoing, done), _size_bytes(outgoing))], share)

    async def wait_for_capacity(self, link: MemberLink) -> None:
        """Wait until there is capacity, both in total and for this connection's key."""
        await self._outbox.wait_for_capacity(link.budget.staged)

    async def _store(self, batch: Sequence[_Entry]) -> None:
        await self._backbone.put([outgoing for outgoing, _ in batch])
        for _, done in batch:
            if done is not None:
                done()


def _size_bytes(outgoing: OutgoingRecord) -> int:
    """Return the approximate size of a record in memory and in Kafka."""
    record = outgoing.record
    if isinstance(record, SdsInRecord):
        return len(record.wire) + _RECORD_BYTES
    # Bounded where it came in: a setting is short.
    return len(record.content or b"") + _RECORD_BYTES * (1 + len(record.settings))
