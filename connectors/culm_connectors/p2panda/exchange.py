"""The four tasks of one connection: they overlap, and end together.

The reader takes bytes with credit, decodes them and hands entries to the checking threads; the applier takes
the results in order; the writer drains what the protocol wants said; deliveries follow the transport's
acknowledgements. A task that waits (for checks, for room, for Kafka) stops the one before it, and at last
the remote.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec, Protocol

from culm_connectors.checking import Checked, CheckPool
from culm_connectors.index.store import Pair, Range
from culm_connectors.p2panda.metrics import DriverMetrics
from culm_connectors.p2panda.sessions import Arrival, Link, LogKey, Work
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ReceiveStream, SendStream
from culm_models.bamboo import decode_entry
from culm_models.errors import CulmError
from culm_models.p2panda.codec import decode, encode_entry_message
from culm_models.p2panda.events import Event
from culm_models.p2panda.messages import EntryMessage, Message, SyncRequest
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.ranges import EntryRange

logger = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Task = Coroutine[None, None, None]

_RANGES_AT_ONCE = 256
# A CBOR array of four whose first item, the message's type, is 2.
_ENTRY_MESSAGE = b"\x84\x02"


class EntryReader(Protocol):
    """Reads parts of logs without holding up the event loop."""

    async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
        """At least the beginning of the first range, and as many others as fit in about `max_bytes`.

        One list a range that was read, empty where nothing of it is held; the last may be a beginning.
        """
        ...


class Observer(Protocol):
    """Hears what happens, on the event loop; it must not block."""

    @property
    def wants_deliveries(self) -> bool:
        """Whether `on_delivered` is of use."""
        ...

    def on_event(self, event: Event) -> None:
        """The protocol has something to tell."""
        ...

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A remote's transport has acknowledged entries up to these sequence numbers."""
        ...


class Hub(Protocol):
    """What the connections of a driver share."""

    def is_current(self, link: Link) -> bool:
        """False once another connection has taken this one's place, or it was given up."""
        ...

    async def room(self) -> None:
        """Wait while too many entries wait to be stored."""
        ...

    async def turn(self, link: Link) -> None:
        """Wait until a remote may begin a session, or its connection has ended."""
        ...

    def turn_used(self, link: Link) -> None:
        """The turn is over where nothing is left to catch up with."""
        ...

    def stage(self, arrivals: Sequence[Arrival]) -> None:
        """Have these stored, in this order, after all that were staged before."""
        ...

    def pump(self) -> None:
        """The peer may have something to tell or to send."""
        ...


class LinkEnded(Exception):
    """Ends the tasks of one connection: `close_code` and the text are what the remote is told."""

    def __init__(self, code: CloseCode, reason: str = "") -> None:
        super().__init__(reason)
        self.close_code = code


Filter = Callable[[bytes, Message], Message | None]
"""What a remote may say: the message itself, a smaller one in its place, or nothing."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every exchange of a driver works with."""

    peer: Peer
    hub: Hub
    reader: EntryReader
    observer: Observer
    pool: CheckPool
    settings: DriverSettings
    metrics: DriverMetrics
    permit: Filter
    now_ms: Callable[[], int]


async def exchange(link: Link, around: Surroundings) -> LinkEnded:
    """Speak on a connection until it ends; returns what the remote is to be told.

    What had come before the end is still applied.
    """
    ended = LinkEnded(CloseCode.NORMAL)
    try:
        async with asyncio.TaskGroup() as group:
            link.outgoing = await link.connection.open_stream()
            beside = [
                group.create_task(_write(link, link.outgoing, around)),
                group.create_task(_acknowledge(link, link.outgoing, around)),
            ]
            group.create_task(_read(link, around))
            await _apply(link, around)
            for task in beside:
                task.cancel()
    except* TransportError as errors:
        logger.debug("connection of %s: %s", link.name, errors.exceptions[0])
    except* LinkEnded as endings:
        ended = next(_leaves(endings))
    finally:
        while not link.work.empty():
            work = link.work.get_nowait()
            if work is not None and work.checking is not None:
                work.checking.cancel()
    return ended


def _until_closed(task: Callable[Arguments, Task]) -> Callable[Arguments, Task]:
    """A closed connection ends a task quietly: the reader ends the rest after applying what had come."""

    @functools.wraps(task)
    async def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        with contextlib.suppress(TransportError):
            await task(*arguments, **named)

    return run


def _leaves(group: BaseExceptionGroup[LinkEnded]) -> Iterator[LinkEnded]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _read(link: Link, around: Surroundings) -> None:
    try:
        stream = await link.connection.accept_stream()
        async with asyncio.TaskGroup() as group:
            second = group.create_task(_refuse_second_stream(link))
            await _read_stream(link, stream, around)
            second.cancel()
    except TransportError as error:
        logger.debug("connection of %s: %s", link.name, error)
    await link.work.put(None)


@_until_closed
async def _refuse_second_stream(link: Link) -> None:
    await link.connection.accept_stream()
    raise LinkEnded(CloseCode.PROTOCOL, "one stream a side carries the protocol")


@_until_closed
async def _read_stream(link: Link, stream: ReceiveStream, around: Surroundings) -> None:
    settings, metrics = around.settings, around.metrics
    while data := await stream.read(settings.read_bytes):
        metrics.bytes_in += len(data)
        if not around.hub.is_current(link):
            return
        messages = _decode(link, data, around)
        metrics.messages_in += len(messages)
        for part in _cut(messages, settings.check_chunk):
            await _pace(link, part)
            await link.work.put(_start(link, part, around))
        if messages:
            # What broke the stream behind these messages is told by the next call only.
            _decode(link, b"", around)


def _decode(link: Link, data: bytes, around: Surroundings) -> list[Message]:
    try:
        return around.peer.decode(link.remote, data)
    except CulmError as error:
        code = CloseCode.TOO_LARGE if error.code.endswith("too_large") else CloseCode.PROTOCOL
        raise LinkEnded(code, error.code) from error


def _cut(messages: Sequence[Message], chunk: int) -> Iterator[tuple[EntryMessage, ...] | Message]:
    """Runs of entries in chunks, other messages one by one, in order."""
    run: list[EntryMessage] = []
    for message in messages:
        if isinstance(message, EntryMessage):
            run.append(message)
            if len(run) < chunk:
                continue
            yield tuple(run)
        else:
            if run:
                yield tuple(run)
            yield message
        run = []
    if run:
        yield tuple(run)


async def _pace(link: Link, part: tuple[EntryMessage, ...] | Message) -> None:
    entries = len(part) if isinstance(part, tuple) else 0
    now_s = time.monotonic()
    wait_s = max(link.messages.wait_s(entries or 1, now_s), link.verifications.wait_s(entries, now_s))
    if wait_s > 0:
        await asyncio.sleep(wait_s)


def _start(link: Link, part: tuple[EntryMessage, ...] | Message, around: Surroundings) -> Work:
    if not isinstance(part, tuple):
        return Work(other=part)
    link.entries_in += len(part)
    around.metrics.entries_in += len(part)
    checking = around.pool.submit([(message.entry, message.operation) for message in part])
    return Work(entries=part, checking=checking)


async def _apply(link: Link, around: Surroundings) -> None:
    while (work := await link.work.get()) is not None:
        if work.checking is not None:
            results = await work.checking
            await around.hub.room()
            if around.hub.is_current(link):
                _apply_entries(link, work.entries, results, around)
        elif work.other is not None:
            await _apply_other(link, work.other, around)
        around.hub.pump()


async def _apply_other(link: Link, said: Message, around: Surroundings) -> None:
    message = around.permit(link.remote, said)
    if message is None:
        return
    is_request = isinstance(message, SyncRequest)
    if is_request:
        await around.hub.turn(link)
    if around.hub.is_current(link):
        around.peer.apply(link.remote, message, around.now_ms())
    if is_request:
        around.hub.pump()
        around.hub.turn_used(link)


def _apply_entries(
    link: Link, messages: Sequence[EntryMessage], results: Sequence[Checked], around: Surroundings
) -> None:
    now = around.now_ms()
    arrivals: list[Arrival] = []
    try:
        for message, checked in zip(messages, results, strict=True):
            raw = (message.entry, message.operation)
            if around.peer.apply_entry(link.remote, message.session_id, checked, raw, now):
                assert not isinstance(checked, CulmError), "a refused entry is never staged"
                arrivals.append(Arrival(checked, link.remote, message.session_id))
    finally:
        # What the peer has staged must be stored, whatever happens to this connection: nobody sends it again.
        around.hub.stage(arrivals)


@_until_closed
async def _write(link: Link, stream: SendStream, around: Surroundings) -> None:
    buffer = bytearray()
    entries: dict[LogKey, int] = {}

    async def flush() -> None:
        await _flush(stream, buffer, around)
        # Not sooner: a delivery is waited for at an offset that has been written.
        for log, seq_num in entries.items():
            link.deliveries.note(log, seq_num, stream.written)
        entries.clear()

    while True:
        link.quiet.set()
        await link.wake.wait()
        link.wake.clear()
        link.quiet.clear()
        while around.hub.is_current(link) and (outgoing := around.peer.outgoing(link.remote)):
            item = outgoing.popleft()
            if isinstance(item, EntryRange):
                ranges = [item]
                while outgoing and isinstance(outgoing[0], EntryRange) and len(ranges) < _RANGES_AT_ONCE:
                    following = outgoing.popleft()
                    assert isinstance(following, EntryRange), "just looked at"
                    ranges.append(following)
                await flush()
                await _write_ranges(link, stream, ranges, around)
                continue
            buffer += item
            if item.startswith(_ENTRY_MESSAGE):
                _note_entry(link, item, entries, around)
            if len(buffer) >= around.settings.write_bytes:
                await flush()
        await flush()


def _note_entry(link: Link, message: bytes, entries: dict[LogKey, int], around: Surroundings) -> None:
    """A live entry goes out: it counts, and its delivery will be waited for."""
    link.entries_out += 1
    around.metrics.entries_out += 1
    if around.observer.wants_deliveries:
        said = decode(message)
        assert isinstance(said, EntryMessage), "the first two bytes say so"
        entry = decode_entry(said.entry)
        entries[entry.public_key, entry.log_id] = entry.seq_num


async def _flush(stream: SendStream, buffer: bytearray, around: Surroundings) -> None:
    if buffer:
        data = bytes(buffer)
        buffer.clear()
        await stream.write(data)
        around.metrics.bytes_out += len(data)


async def _write_ranges(
    link: Link, stream: SendStream, ranges: Sequence[EntryRange], around: Surroundings
) -> None:
    """Read and write parts of logs, chunk by chunk; a log that was cut back meanwhile ends early."""
    waiting = deque((part, part.first_seq_num) for part in ranges)
    while waiting:
        found = await around.reader.read_ranges(
            [(part.public_key, part.log_id, first, part.last_seq_num) for part, first in waiting],
            around.settings.write_bytes,
        )
        data = bytearray()
        sent: list[tuple[LogKey, int]] = []
        for pairs in found:
            part, first = waiting.popleft()
            for entry, operation in pairs:
                data += encode_entry_message(part.session_id, entry, operation)
            last = first + len(pairs) - 1
            if pairs:
                sent.append(((part.public_key, part.log_id), last))
                link.entries_out += len(pairs)
                around.metrics.entries_out += len(pairs)
                if last < part.last_seq_num:
                    waiting.appendleft((part, last + 1))
        await _flush(stream, data, around)
        if around.observer.wants_deliveries:
            for log, seq_num in sent:
                link.deliveries.note(log, seq_num, stream.written)


@_until_closed
async def _acknowledge(link: Link, stream: SendStream, around: Surroundings) -> None:
    while True:
        await link.deliveries.changed.wait()
        offset, heights = link.deliveries.take()
        await stream.wait_acknowledged(offset)
        around.observer.on_delivered(link.remote, heights)
