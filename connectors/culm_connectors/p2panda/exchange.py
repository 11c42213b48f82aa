"""The four tasks of one connection: they overlap, and end together.

The reader takes bytes with credit, decodes them and hands entries to the checking threads; the applier takes
the results in order; the writer (`writing`) drains what the protocol wants said; deliveries follow the
transport's acknowledgements. A task that waits (for checks, for room, for Kafka) stops the one before it,
and at last the remote.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import ParamSpec

from culm_connectors.checking import Checked
from culm_connectors.p2panda.sessions import Arrival, Link, Work
from culm_connectors.p2panda.surroundings import LinkEnded, Surroundings
from culm_connectors.p2panda.writing import Writer
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ReceiveStream, SendStream
from culm_models.errors import CulmError
from culm_models.p2panda.messages import Announce, EntryMessage, Message, SyncRequest
from culm_models.reconciliation.messages import ReconciliationMessage

# A message of this size is decoded in a few milliseconds.
_DECODED_AT_ONCE_BYTES = 16 * 1024

logger = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Task = Coroutine[None, None, None]


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
        messages = await _decode(link, data, around)
        if not around.hub.is_current(link):
            return
        metrics.messages_in += len(messages)
        for work in _cut(messages, settings.check_chunk, settings.reconciliation_chunk):
            await _pace(link, work)
            await link.work.put(_start(link, work, around))
        if messages:
            # What broke the stream behind these messages is told by the next call only.
            _check_stream(link, around)
        # There may be more to read already, and every remote has its turn.
        await asyncio.sleep(0)


async def _decode(link: Link, data: bytes, around: Surroundings) -> list[Message]:
    stream = around.peer.stream(link.remote)
    if stream is None:
        return []
    items = stream.items_taken
    messages: list[Message] = []
    with contextlib.suppress(CulmError):
        if stream.pending <= _DECODED_AT_ONCE_BYTES:
            messages = stream.feed(data)
        else:
            # The end of a large message: all of it is decoded then, which takes long.
            messages = await around.pool.aside(functools.partial(stream.feed, data))
    if not messages:
        _check_stream(link, around)
    wait_s = link.budget.items.wait_s(stream.items_taken - items, time.monotonic())
    if wait_s > 0:
        await asyncio.sleep(wait_s)
    return messages


def _check_stream(link: Link, around: Surroundings) -> None:
    try:
        around.peer.decode(link.remote, b"")
    except CulmError as error:
        code = CloseCode.TOO_LARGE if error.code.endswith("too_large") else CloseCode.PROTOCOL
        raise LinkEnded(code, error.code) from error


def _cut(messages: Sequence[Message], entries_at_once: int, ranges_at_once: int) -> Iterator[Work]:
    """Runs of entries and of reconciliation messages in chunks, other messages one by one, in order."""
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


async def _pace(link: Link, work: Work) -> None:
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


def _start(link: Link, work: Work, around: Surroundings) -> Work:
    if not work.entries:
        return work
    link.entries_in += len(work.entries)
    around.metrics.entries_in += len(work.entries)
    checking = around.pool.submit(
        [(message.entry, message.operation) for message in work.entries], owner=link.remote
    )
    return dataclasses.replace(work, checking=checking)


async def _apply(link: Link, around: Surroundings) -> None:
    while (work := await link.work.get()) is not None:
        link.applying = True
        if work.checking is not None:
            results = await work.checking
            await _until_held(link, results, around)
            await around.hub.room()
            if around.hub.is_current(link):
                _apply_entries(link, work.entries, results, around)
        elif work.other is not None:
            await _apply_other(link, work.other, around)
        elif around.hub.is_current(link):
            now = around.now_ms()
            for message in work.ranges:
                around.peer.apply(link.remote, message, now)
        link.applying = False
        around.hub.pump()
        await asyncio.sleep(0)


async def _until_held(link: Link, results: Sequence[Checked], around: Surroundings) -> None:
    """Wait for what remotes take for held and what these entries follow on, while it is on its way."""
    expectations = around.expectations
    while around.hub.is_current(link) and any(
        expectations.awaits_before(one.log, one.entry.seq_num)
        for one in results
        if not isinstance(one, CulmError)
    ):
        await expectations.arrival()


async def _apply_other(link: Link, said: Message, around: Surroundings) -> None:
    message = around.permit(link.remote, said)
    if message is None:
        if isinstance(said, SyncRequest):
            around.peer.pass_over(link.remote, said)
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
    await Writer(link, stream, around).run()


@_until_closed
async def _acknowledge(link: Link, stream: SendStream, around: Surroundings) -> None:
    while True:
        await link.deliveries.changed.wait()
        offset, heights = link.deliveries.take()
        await stream.wait_acknowledged(offset)
        around.observer.on_delivered(link.remote, heights)
