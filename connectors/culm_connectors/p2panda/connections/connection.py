"""The four tasks of one connection: they overlap, and end together.

The reader takes bytes with credit, decodes them and hands entries to the checking threads; the applier takes
the results in order; the writer (`writer`) sends the messages of the protocol; deliveries follow the
transport's acknowledgements. A task that waits (for checks, for capacity, for Kafka) stops the one before it,
and at last the remote.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import ParamSpec

from culm_connectors.edge.access import AccessError
from culm_connectors.edge.serving import LinkEnded, first_ending
from culm_connectors.logs.check_pool import Checked
from culm_connectors.logs.hub import Arrival
from culm_connectors.p2panda.connections.link import PeerLink, Work
from culm_connectors.p2panda.connections.shared import Shared
from culm_connectors.p2panda.connections.writer import Deliveries, StreamWriter
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ReceiveStream, SendStream
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import OperationFacts
from culm_models.p2panda.wire.messages import Announce, EntryMessage, Message, SyncRequest
from culm_models.reconciliation.messages import ReconciliationMessage

# A message of this size is decoded in a few milliseconds.
_DECODED_AT_ONCE_BYTES = 16 * 1024
_DECODED_AT_ONCE = 256
"""Number of small messages that are decoded before others have their turn on the event loop."""
# Of a remote that has brought nothing sound yet, so few entries are checked before more of it is read.
_STRANGER_CHUNK = 32

logger = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Task = Coroutine[None, None, None]


async def exchange(link: PeerLink, shared: Shared) -> LinkEnded:
    """Serve a connection until it ends; returns the close code and reason to send to the remote.

    What had come before the end is still applied.
    """
    ended = LinkEnded(CloseCode.NORMAL)
    try:
        async with asyncio.TaskGroup() as group:
            link.outgoing = await link.connection.open_stream()
            writer = StreamWriter(link, link.outgoing, shared)
            beside = [
                group.create_task(_until_closed(writer.run)()),
                group.create_task(_acknowledge(link, writer.deliveries, link.outgoing, shared)),
            ]
            group.create_task(_read(link, shared))
            # A task of its own: what has called this coroutine is not resumed for each message.
            group.create_task(_apply(link, shared, beside))
    except* TransportError as errors:
        logger.debug("connection of %s: %s", link.name, errors.exceptions[0])
    except* LinkEnded as endings:
        ended = first_ending(endings)
    finally:
        while not link.work.empty():
            work = link.work.get_nowait()
            if work is not None and work.checking is not None:
                work.checking.cancel()
    return ended


def _until_closed(task: Callable[Arguments, Task]) -> Callable[Arguments, Task]:
    """End a task quietly if the connection is closed; the reader ends the others after applying all data."""

    @functools.wraps(task)
    async def run(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        with contextlib.suppress(TransportError):
            await task(*arguments, **named)

    return run


async def _read(link: PeerLink, shared: Shared) -> None:
    try:
        stream = await link.connection.accept_stream()
        async with asyncio.TaskGroup() as group:
            second = group.create_task(_refuse_second_stream(link))
            await _read_stream(link, stream, shared)
            second.cancel()
    except TransportError as error:
        logger.debug("connection of %s: %s", link.name, error)
    await link.work.put(None)


@_until_closed
async def _refuse_second_stream(link: PeerLink) -> None:
    await link.connection.accept_stream()
    raise LinkEnded(CloseCode.PROTOCOL, "one stream a side carries the protocol")


@_until_closed
async def _read_stream(link: PeerLink, stream: ReceiveStream, shared: Shared) -> None:
    settings, metrics = shared.settings, shared.metrics
    while data := await stream.read(settings.read_bytes):
        metrics.bytes_in += len(data)
        if not link.is_current:
            return
        is_left = True
        while is_left:
            messages = await _decode(link, data, shared)
            if not link.is_current:
                return
            metrics.messages_in += len(messages)
            for work in _cut(messages, _check_chunk(link, settings), settings.reconciliation_chunk):
                await _pace(link, work)
                if work.entries:
                    _check(link, work, shared)
                await link.work.put(work)
                if work.checking is not None and not link.budget.is_trusted:
                    await asyncio.wait([work.checking])
            # An error of the stream is reported once the messages before it are taken.
            _check_stream(link, shared)
            stream_in = shared.peer.stream(link.remote)
            data, is_left = b"", stream_in is not None and stream_in.is_left
            # There may be more to read already, and every remote has its turn.
            await asyncio.sleep(0)
    if (ended := shared.peer.stream(link.remote)) is not None and link.is_current:
        try:
            ended.end()
        except CulmError as error:
            raise LinkEnded(CloseCode.PROTOCOL, error.code) from error


def _check_chunk(link: PeerLink, settings: DriverSettings) -> int:
    return settings.check_chunk if link.budget.is_trusted else min(settings.check_chunk, _STRANGER_CHUNK)


async def _decode(link: PeerLink, data: bytes, shared: Shared) -> list[Message]:
    stream = shared.peer.stream(link.remote)
    if stream is None:
        return []
    items = stream.items_taken
    messages: list[Message] = []
    with contextlib.suppress(CulmError):
        if stream.pending <= _DECODED_AT_ONCE_BYTES:
            messages = stream.feed(data, _DECODED_AT_ONCE)
        else:
            # The end of a large message: all of it is decoded then, which takes long. Others have the
            # interpreter for as long afterwards.
            begun_s = time.monotonic()
            messages = await shared.pool.aside(functools.partial(stream.feed, data, _DECODED_AT_ONCE))
            await asyncio.sleep(time.monotonic() - begun_s)
    wait_s = link.budget.items.wait_s(stream.items_taken - items, time.monotonic())
    if wait_s > 0:
        await asyncio.sleep(wait_s)
    return messages


def _check_stream(link: PeerLink, shared: Shared) -> None:
    stream = shared.peer.stream(link.remote)
    if stream is None or stream.error is None:
        return
    try:
        shared.peer.decode(link.remote, b"")
    except CulmError as error:
        code = CloseCode.TOO_LARGE if error.code.endswith("too_large") else CloseCode.PROTOCOL
        raise LinkEnded(code, error.code) from error


def _cut(messages: Sequence[Message], entries_at_once: int, ranges_at_once: int) -> Iterator[Work]:
    """Yield runs of entries and of reconciliation messages in chunks, other messages singly, in order."""
    entries: list[EntryMessage] = []
    ranges: list[ReconciliationMessage] = []
    for message in messages:
        if ranges and not isinstance(message, ReconciliationMessage):
            yield Work(ranges=tuple(ranges))
            ranges.clear()
        if entries and not isinstance(message, EntryMessage):
            yield Work(entries=tuple(entries))
            entries.clear()
        if isinstance(message, EntryMessage):
            entries.append(message)
            if len(entries) >= entries_at_once:
                yield Work(entries=tuple(entries))
                entries.clear()
        elif isinstance(message, ReconciliationMessage):
            ranges.append(message)
            if len(ranges) >= ranges_at_once:
                yield Work(ranges=tuple(ranges))
                ranges.clear()
        else:
            yield Work(other=message)
    if entries or ranges:
        yield Work(entries=tuple(entries), ranges=tuple(ranges))


async def _pace(link: PeerLink, work: Work) -> None:
    now_s, budget = time.monotonic(), link.budget
    wait_s = max(
        budget.messages.wait_s(len(work.entries), now_s),
        budget.verifications.wait_s(len(work.entries), now_s),
        # Cheap one by one, and as many as there are differences: they have a measure of their own.
        budget.ranges.wait_s(len(work.ranges), now_s),
        budget.control.wait_s(work.other is not None, now_s),
        budget.requests.wait_s(isinstance(work.other, SyncRequest), now_s),
        budget.announcements.wait_s(isinstance(work.other, Announce), now_s),
    )
    if wait_s > 0:
        await asyncio.sleep(wait_s)


def _check(link: PeerLink, work: Work, shared: Shared) -> None:
    shared.metrics.entries_in += len(work.entries)
    work.checking = shared.pool.submit(
        [(message.entry, message.operation) for message in work.entries], owner=link.remote
    )


async def _apply(link: PeerLink, shared: Shared, beside: Sequence[asyncio.Task[None]]) -> None:
    """Apply all that was read, in order. Its end ends the tasks `beside` this one."""
    while (work := await link.work.get()) is not None:
        link.applying = True
        if work.checking is not None:
            results = await work.checking
            await _until_held(link, results, shared)
            await shared.staged.wait_for_capacity()
            if link.is_current:
                _apply_entries(link, work.entries, results, shared)
        elif work.other is not None:
            await _apply_other(link, work.other, shared)
        elif link.is_current:
            now = shared.now_ms()
            for message in work.ranges:
                shared.peer.apply(link.remote, message, now)
        link.applying = False
        shared.due.set()
        await asyncio.sleep(0)
    for task in beside:
        task.cancel()


async def _until_held(link: PeerLink, results: Sequence[Checked[OperationFacts]], shared: Shared) -> None:
    """Wait for what remotes take for held and what these entries follow on, while it is on its way."""
    claims = shared.claims
    while link.is_current and any(
        claims.awaits_before(checked.log, checked.entry.seq_num)
        for checked in results
        if not isinstance(checked, CulmError)
    ):
        await claims.arrival()


async def _apply_other(link: PeerLink, received: Message, shared: Shared) -> None:
    message = shared.permit(link.remote, received)
    if message is not received:
        shared.metrics.ignored[AccessError.code] += 1
    if message is None:
        if isinstance(received, SyncRequest):
            shared.peer.ignore_request(link.remote, received)
        return
    is_request = isinstance(message, SyncRequest)
    if is_request:
        await _wait_for_turn(link, shared)
    if link.is_current:
        shared.peer.apply(link.remote, message, shared.now_ms())
    if is_request:
        shared.end_turn(link)


async def _wait_for_turn(link: PeerLink, shared: Shared) -> None:
    """Wait until a remote may begin a session, or its connection has ended."""
    if shared.turns.has(link.remote):
        return
    turn = asyncio.ensure_future(shared.turns.take(link.remote, time.monotonic()))
    closed = asyncio.ensure_future(link.connection.wait_closed())
    try:
        await asyncio.wait({turn, closed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        turn.cancel()
        closed.cancel()


def _apply_entries(
    link: PeerLink,
    messages: Sequence[EntryMessage],
    results: Sequence[Checked[OperationFacts]],
    shared: Shared,
) -> None:
    now = shared.now_ms()
    arrivals: list[Arrival] = []
    try:
        for message, checked in zip(messages, results, strict=True):
            if shared.peer.apply_entry(link.remote, message, checked, now):
                assert not isinstance(checked, CulmError), "a refused entry is never staged"
                arrivals.append(Arrival(checked, link.remote, message.session_id))
    finally:
        # What the peer has staged must be stored, whatever happens to this connection: nobody sends it again.
        shared.staged.add((arrival, arrival.checked.size_bytes) for arrival in arrivals)


@_until_closed
async def _acknowledge(link: PeerLink, deliveries: Deliveries, stream: SendStream, shared: Shared) -> None:
    while True:
        await deliveries.changed.wait()
        offset, heights = deliveries.take()
        await stream.wait_acknowledged(offset)
        shared.observer.on_delivered(link.remote, heights)
