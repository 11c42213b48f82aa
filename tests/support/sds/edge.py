"""The SDS edge in tests: a backbone in memory, a driver behind real QUIC, and a remote that says anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from culm_connectors.sds.backbone import ChannelListener, EventAt, OutgoingRecord, Page
from culm_connectors.sds.channels.owners import ChannelOwners
from culm_connectors.sds.driver import SdsDriver, permit_everything
from culm_connectors.sds.settings import ALPN, SdsEdgeSettings
from culm_connectors.transport import Address, CloseReason, Connection, Identity, SendStream, TransportError
from culm_connectors.transport.quic import connect, serve
from culm_models.sds.frames import codec as wire
from culm_models.sds.frames.messages import Frame, Hello, Join, Joined
from culm_models.sds.wire.codec import decode, encode
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile
from culm_topics.sds.records import (
    OwnedRole,
    SdsCommandRecord,
    SdsEventRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOwnerRecord,
)
from culm_topics.sds.store import StoredMessage
from tests.support.connectors.quic import LOOPBACK, identity, quick_settings
from tests.support.process.waiting import until, while_working

SERVER = identity(100)
FrameKind = TypeVar("FrameKind", bound=Frame)


@dataclass
class MemoryBackbone:
    """Keeps everything in lists; several drivers may share one, as connectors share a Kafka."""

    listeners: list[ChannelListener] = field(default_factory=list)
    said: list[tuple[str, SdsInRecord]] = field(default_factory=list)
    commands: list[tuple[str, SdsCommandRecord]] = field(default_factory=list)
    store: list[tuple[str, SdsMessageRecord]] = field(default_factory=list)
    told: list[tuple[str, SdsEventRecord]] = field(default_factory=list)
    followed: Counter[str] = field(default_factory=Counter)
    follows: int = 0
    """How often a channel was asked to be followed."""
    page: int = 3
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set nothing becomes durable."""
    stores: bool = False
    """Whether what peers bring is in the store at once, as if a job ran."""
    owners: ChannelOwners = field(default_factory=ChannelOwners)
    decides: bool = True
    """Whether it is said at once whose an id is, as if a job ran."""

    def __post_init__(self) -> None:
        self._owned: set[tuple[str, str]] = set()
        self.gate.set()

    async def follow(self, channel_id: str) -> None:
        self.followed[channel_id] += 1
        self.follows += 1

    def unfollow(self, channel_id: str) -> None:
        self.followed[channel_id] -= 1

    async def put(self, batch: Sequence[OutgoingRecord]) -> None:
        await self.gate.wait()
        for outgoing in batch:
            record = outgoing.record
            if isinstance(record, SdsInRecord):
                self.said.append((outgoing.channel_id, record))
                self._keep_new(outgoing.channel_id, record)
            else:
                self.commands.append((outgoing.channel_id, record))
                if self.decides:
                    self._decide(outgoing.channel_id, record)

    def _decide(self, channel_id: str, record: SdsCommandRecord) -> None:
        if self.owners.channel(channel_id) is None:
            self.own(channel_id, "", record.peer_id, record.profile, "channel")
        if record.kind == "join" and (channel_id, record.participant_id) not in self._owned:
            self.own(channel_id, record.participant_id, record.peer_id, record.profile)

    def own(
        self,
        channel_id: str,
        participant_id: str,
        peer_id: bytes | None,
        profile: Profile = "spec",
        role: OwnedRole = "hosted",
    ) -> None:
        """The job says whose an id is."""
        self._owned.add((channel_id, participant_id))
        self.owners.put(channel_id, participant_id, SdsOwnerRecord(role, profile, peer_id, 1))
        for listener in self.listeners:
            listener.owned(channel_id, participant_id)

    def _keep_new(self, channel_id: str, record: SdsInRecord) -> None:
        message = decode(record.wire, record.profile)
        stored_ids = {message.message_id for name, message in self.store if name == channel_id}
        if self.stores and message.kind == "content" and message.message_id not in stored_ids:
            self.keep(channel_id, record.wire, record.profile)

    def keep(self, channel_id: str, data: bytes, profile: Profile = "spec") -> None:
        """A message is in the store now."""
        message = decode(data, profile)
        assert message.lamport_timestamp is not None
        self.store.append(
            (
                channel_id,
                SdsMessageRecord(
                    profile, message.message_id, message.sender_id, message.lamport_timestamp, data
                ),
            )
        )

    def tell(self, channel_id: str, event: SdsEventRecord) -> None:
        """The job tells an event: it is kept and heard."""
        self.told.append((channel_id, event))
        for listener in self.listeners:
            listener.happened(channel_id, event, _cursor(len(self.told)))

    async def history(
        self, channel_id: str, cursor: bytes, end: bytes = b""
    ) -> AsyncGenerator[Page[StoredMessage], None]:
        position = _position(cursor)
        last = _position(end) if end else len(self.store)
        while True:
            await asyncio.sleep(0)
            rows = self.store[position : position + self.page]
            stored = tuple(
                _stored(record, position + index)
                for index, (name, record) in enumerate(rows)
                if name == channel_id
            )
            position += len(rows)
            present = position >= last
            yield Page(stored, _cursor(position), present, _cursor(last))
            if present:
                return

    async def events(
        self, channel_id: str, cursor: bytes, expected: int | None = None
    ) -> AsyncGenerator[Page[EventAt], None]:
        position = _position(cursor)
        while True:
            await asyncio.sleep(0)
            rows = self.told[position : position + self.page]
            events = tuple(
                (record, _cursor(position + index + 1))
                for index, (name, record) in enumerate(rows)
                if name == channel_id
            )
            position += len(rows)
            present = position >= len(self.told)
            yield Page(events, _cursor(position), present)
            if present:
                return

    def present(self, channel_id: str) -> bytes:
        return _cursor(len(self.told))

    async def find(self, channel_id: str, entries: Sequence[HistoryEntry]) -> Sequence[StoredMessage]:
        wanted = {entry.message_id for entry in entries}
        return [
            _stored(record, position)
            for position, (name, record) in enumerate(self.store)
            if name == channel_id and record.message_id in wanted
        ]

    async def heads(self, channel_ids: Sequence[str]) -> Mapping[str, Sequence[tuple[int, str]]]:
        return {
            channel_id: sorted(
                (record.lamport_timestamp, record.message_id)
                for name, record in self.store
                if name == channel_id
            )[-16:]
            for channel_id in channel_ids
        }

    def mark(self, channel_id: str) -> bytes | None:
        return _cursor(len(self.store))


def _stored(record: SdsMessageRecord, position: int) -> StoredMessage:
    return StoredMessage(
        record.profile,
        record.message_id,
        record.sender_id,
        record.lamport_timestamp,
        record.wire,
        _cursor(position),
        None,
    )


def _cursor(position: int) -> bytes:
    return position.to_bytes(8, "big")


def _position(cursor: bytes) -> int:
    return int.from_bytes(cursor, "big")


@contextlib.asynccontextmanager
async def serving(
    backbone: MemoryBackbone,
    *,
    connector: bytes = b"edge-one",
    permit: Callable[[bytes, str], bool] = permit_everything,
    **settings: Any,
) -> AsyncIterator[tuple[SdsDriver, Address]]:
    """A driver that serves over real QUIC."""
    edge = SdsEdgeSettings.model_validate(
        {"tick_interval_s": 0.02, "job_fetch_spread_s": 0, "head_idle_s": 0.05, **settings}
    )
    driver = SdsDriver(backbone, edge, connector_id=connector, permit=permit)
    backbone.listeners.append(driver.channels)
    running = asyncio.create_task(driver.run())
    try:
        async with serve(LOOPBACK, SERVER, quick_settings(), driver.serve, alpn=ALPN) as listener:
            yield driver, listener.address
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        backbone.listeners.remove(driver.channels)


@dataclass
class Remote:
    """The client's end of a connection: says frames or any bytes, and notes what it hears."""

    connection: Connection
    stream: SendStream
    heard: list[Frame] = field(default_factory=list)

    async def say(self, *frames: Frame) -> None:
        await self.send(b"".join(map(wire.encode, frames)))

    async def send(self, data: bytes) -> None:
        with contextlib.suppress(TransportError):
            await self.stream.write(data)

    def all(self, kind: type[FrameKind]) -> list[FrameKind]:
        return [frame for frame in self.heard if isinstance(frame, kind)]

    async def hears(self, kind: type[FrameKind], count: int = 1) -> list[FrameKind]:
        """Wait until so many frames of a kind have come."""
        await until(lambda: len(self.all(kind)) >= count or self.connection.close_reason)
        frames = self.all(kind)
        assert len(frames) >= count, f"closed: {self.connection.close_reason}"
        return frames

    async def joins(self, channel_id: str, participant_id: str, **how: Any) -> None:
        """Join, and wait until that is so."""
        profile: Profile = how.pop("profile", "spec")
        before = len(self.all(Joined))
        await self.say(Join(channel_id, profile, participant_id, **how))
        await self.hears(Joined, before + 1)

    async def closed(self) -> CloseReason:
        async with while_working():
            return await self.connection.wait_closed()


@contextlib.asynccontextmanager
async def remote(
    address: Address, who: Identity | int, *, listens: bool = True, server: bytes | None = None
) -> AsyncIterator[Remote]:
    """A client's connection."""
    own = identity(who) if isinstance(who, int) else who
    connection = await connect(address, own, server, quick_settings(), alpn=ALPN)
    receive = await connection.accept_stream()
    assert receive.send is not None
    client = Remote(connection, receive.send)

    async def listen() -> None:
        reader = wire.FrameReader()
        with contextlib.suppress(TransportError):
            while data := await receive.read():
                reader.feed(data)
                client.heard += reader.frames()

    listening = asyncio.create_task(listen() if listens else asyncio.sleep(0))
    try:
        if listens:
            await client.hears(Hello)
        yield client
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await connection.close()


def message(
    sender: str, message_id: str, lamport: int | None = 1, channel_id: str = "room", **fields: Any
) -> bytes:
    """The bytes of a message in profile spec."""
    content = fields.pop("content", b"hello")
    return encode(
        Message(sender, message_id, channel_id, lamport_timestamp=lamport, content=content, **fields), "spec"
    )


def event(
    number: int, kind: Any = "delivered", participant: str | None = None, **fields: Any
) -> SdsEventRecord:
    """An event as the job tells it."""
    return SdsEventRecord(number, kind, participant, f"m{number}", 1_000 + number, **fields)
