"""Notes at the edge: a peer opens one stream, says notes, and is told all notes in their order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

from confluent_kafka import OFFSET_BEGINNING, Message
from prometheus_client.core import Metric

from culm_connectors.edge.access import AccessList
from culm_connectors.edge.budgets import OpenConnections, RememberedBudgets
from culm_connectors.edge.doors import QuicDoor
from culm_connectors.edge.feed import Feed, RefusedRecord, apply_each
from culm_connectors.edge.intake import IntakeLimits, MemoryOutbox, Share
from culm_connectors.edge.protocol import EdgeContext, until_cancelled
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.pump import Pump
from culm_connectors.edge.serving import Ending, LinkEnded, ProtocolStatus, ServedLink, ServedLinks
from culm_connectors.kafka import ProducerRecord, TopicReader, TopicReaders
from culm_connectors.transport import CloseCode, Connection, ReceiveStream
from culm_topics.kafka.acls import connector_group_prefix
from culm_topics.readers.batch import Partition
from tests.streaming.sixth_protocol.topics import NoteRecord, NumberedNoteRecord
from tests.streaming.sixth_protocol.wire import GREETING, NoteReader, NoteRefused, write_note

ALPN: Final = "notes/1"
Note = tuple[bytes, str]


class Writer:
    """What one key may use, whatever connections it has."""

    def __init__(self, now_s: float) -> None:
        self.connections = OpenConnections(max_count=4, per_minute=60, now_s=now_s)
        self.staged = Share()


class NotesLink(ServedLink):
    """One connection. Implements `ByteMachine`: notes come in, numbered notes go out."""

    lanes: ClassVar = 1

    def __init__(
        self, connection: Connection, notes: list[bytes], outbox: MemoryOutbox[Note], writer: Writer
    ) -> None:
        super().__init__(connection)
        self.dropped: NoteRefused | None = None
        self.pump = Pump(self, _call, _call)
        self.stream: ReceiveStream
        self._notes, self._outbox, self._staged = notes, outbox, writer.staged
        self._reader = NoteReader()
        self._sent = 0

    async def read(self, lane: int) -> bytes:
        return await self.stream.read()

    def receive(self, lane: int, data: bytes) -> Generator[None, None, None]:
        try:
            notes = self._reader.receive(data)
        except NoteRefused as error:
            self.dropped = error
        else:
            self._outbox.add((((self.remote, note), len(note)) for note in notes), self._staged)
        yield

    async def until_ready(self, lane: int, size: int) -> bool:
        await self._outbox.wait_for_capacity(self._staged)
        return False

    async def capacity(self, lane: int) -> int:
        return 1_000

    def take(self, lane: int, capacity: int) -> tuple[bytes, bool]:
        notes = self._notes[self._sent : self._sent + capacity]
        self._sent += len(notes)
        return b"".join(notes), self._sent < len(self._notes)

    async def write(self, lane: int, data: bytes) -> None:
        assert self.stream.send is not None, "it is bidirectional"
        await self.stream.send.write(data)


async def _call(step: Callable[[], Any]) -> Any:
    return step()


class NotesProtocol:
    """Implements `EdgeProtocol`, and `Applier`: its store is a list."""

    topics: Sequence[str] = ("notes.numbered",)

    def __init__(self, context: EdgeContext) -> None:
        assert context.settings.listen is not None, "asked before it is opened"
        self._context = context
        self._metrics = ProtocolMetrics()
        self._last = -1
        self._notes = [GREETING]
        self._outbox = MemoryOutbox[Note](
            self._produce,
            self._metrics,
            IntakeLimits(items=10_000, size_bytes=1_000_000),
            batch=IntakeLimits(items=1_000, size_bytes=100_000),
            share=IntakeLimits(items=100, size_bytes=10_000),
        )
        self._feed = Feed(self.topics, self, self._refuse)
        self._writers = RememberedBudgets[bytes, Writer](Writer)
        self._links = ServedLinks[NotesLink](self._metrics, id, lambda link: self._writers.end(link.remote))
        judge = context.access.rules("notes").judge
        self.doors = (QuicDoor(ALPN, context.settings.listen, self._serve, judge),)

    # Who comes.

    async def _serve(self, connection: Connection) -> None:
        writer = self._writers.begin(connection.peer_id, time.monotonic())
        if writer is None:
            self._links.refuse(connection, CloseCode.OVERLOADED, "too many connections")
            return
        link = NotesLink(connection, self._notes, self._outbox, writer)
        self._links.begin(link)
        await self._links.serve(link, self._speak)

    async def _speak(self, link: NotesLink) -> LinkEnded:
        link.stream = await link.connection.accept_stream()
        error = await link.pump.run()
        if not isinstance(error, NoteRefused):
            return LinkEnded(CloseCode.NORMAL)
        self._metrics.rejects[error.code] += 1
        return LinkEnded(CloseCode.PROTOCOL, f"{error.code}: {error}")

    # What they say becomes records, and what topics bring is said to them.

    async def _produce(self, notes: Sequence[Note]) -> None:
        records = [ProducerRecord(key=key, value=NoteRecord(text).encode()) for key, text in notes]
        await self._context.producer.send(self._context.kafka.topic("notes.said"), records)

    async def positions(self, name: str, topic: str) -> Mapping[Partition, int]:
        return {(topic, 0): OFFSET_BEGINNING}

    async def apply(
        self, name: str, records: Sequence[Message], offsets: Mapping[Partition, int] | None
    ) -> Sequence[RefusedRecord]:
        def take(message: Message) -> None:
            note = NumberedNoteRecord.decode(message.value())
            # A batch of the job that runs again writes the same once more.
            if note.number > self._last:
                self._last = note.number
                self._notes.append(write_note(note.number, note.text))

        refused = apply_each(records, take)
        for link in self._links.open.values():
            link.pump.wake()
        return refused

    async def lost(self, topic: str) -> None:
        """Nothing is kept."""

    def _refuse(self, refused: RefusedRecord) -> None:
        raise refused.error  # the job writes none such

    # What the connector asks.

    @property
    def readers(self) -> Sequence[TopicReader]:
        return list(self._feed.readers.values())

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        group_id = f"{connector_group_prefix(self._context.kafka)}{self._context.connector_id.hex()}"
        async with asyncio.TaskGroup() as group:
            group.create_task(self._outbox.run())
            group.create_task(self._feed.run(TopicReaders(self._context.kafka, group_id)))
            await self._feed.at_ends.wait()
            await ready()
            await until_cancelled()

    def why_not_ready(self) -> Sequence[str]:
        return () if self._feed.at_ends.is_set() else ("reading the notes",)

    def measured(self) -> ProtocolMetrics:
        return self._metrics

    def metrics(self) -> Iterator[Metric]:
        return iter(())

    def status(self) -> ProtocolStatus:
        return ProtocolStatus(self._links.peers())

    def judge_again(self, former: AccessList) -> None:
        """The door ends connections of those who may no longer come in."""

    def endings(self, reason: str) -> Sequence[Ending]:
        return self._links.endings(reason)

    async def finish(self, reason: str) -> None:
        await self._links.finish(reason)
        await self._outbox.drained()


@asynccontextmanager
async def open_notes(context: EdgeContext) -> AsyncIterator[NotesProtocol]:
    yield NotesProtocol(context)
