"""What the writer of a connection holds back while entries are on their way, and what passes meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.logs.index.layout import Pair, Range
from culm_connectors.logs.warm_start.claims import Listener
from culm_connectors.p2panda.connections import writer as writing
from culm_connectors.p2panda.connections.shared import Shared
from culm_connectors.p2panda.connections.writer import StreamWriter
from culm_connectors.p2panda.peer_events import DriverMetrics
from culm_connectors.p2panda.settings import DriverSettings
from culm_models.bamboo import decode_entry
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.outbox import QueuedMessage, SendQueue
from culm_models.p2panda.wire.codec import MessageStream, encode
from culm_models.p2panda.wire.messages import EntryMessage, Have, Message, SyncDone, SyncRequest
from culm_models.reconciliation.messages import Terminal
from tests.support.p2panda.logs import SCHEMA, author, make_log

LOGS = [make_log(author(name), 0, 6) for name in ("one", "two")]


class Store:
    """Logs that come in bit by bit: what is claimed and not there is on its way."""

    def __init__(self, *logs: Sequence[CheckedOperation]) -> None:
        self.logs = {log[0].log: log for log in logs}
        self.there = dict.fromkeys(self.logs, 0)
        self.claimed = {key: len(log) for key, log in self.logs.items()}
        self.listeners: set[Listener] = set()
        self.anything = True

    def awaits(self, log: LogKey, seq_num: int) -> bool:
        return self.there[log] < seq_num <= self.claimed[log]

    async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
        return [
            [
                (operation.entry_bytes, operation.payload_bytes)
                for operation in self.logs[public_key, log_id][
                    first - 1 : min(last, self.there[public_key, log_id])
                ]
            ]
            for public_key, log_id, first, last in ranges
        ]

    def come(self, log: Sequence[CheckedOperation], height: int) -> None:
        self.there[log[0].log] = height
        for listener in tuple(self.listeners):
            listener({log[0].log})

    def give_up(self) -> None:
        self.claimed = dict.fromkeys(self.logs, 0)
        for listener in tuple(self.listeners):
            listener(None)


class Rig:
    """A writer, what waits for it, and what it has written."""

    def __init__(self, store: Store) -> None:
        self.outbox = SendQueue(4_096, 1 << 22)
        self.metrics = DriverMetrics()
        self._heard = MessageStream()
        self.said_so_far: list[Message] = []
        self.written = 0
        self.link = SimpleNamespace(
            remote=bytes(32),
            is_current=True,
            wake=asyncio.Event(),
            quiet=asyncio.Event(),
            entries_out=0,
        )
        shared = Shared(
            peer=cast(Any, SimpleNamespace(outgoing=lambda _: self.outbox, withheld=lambda _: None)),
            due=asyncio.Event(),
            turns=cast(Any, None),
            staged=cast(Any, None),
            reader=store,
            claims=cast(Any, store),
            observer=cast(Any, SimpleNamespace(wants_deliveries=True)),
            pool=cast(Any, None),
            settings=DriverSettings(),
            metrics=self.metrics,
            permit=lambda _, message: message,
            now_ms=lambda: 0,
        )
        self.writer = StreamWriter(cast(Any, self.link), cast(Any, self), shared)

    async def write(self, data: bytes) -> None:
        self.written += len(data)
        self.said_so_far += self._heard.feed(data)

    async def say(self, *items: Message | EntryRange) -> None:
        for item in items:
            self.outbox.append(item if isinstance(item, EntryRange) else queued(item))
        self.link.wake.set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    def said(self) -> list[Message]:
        """What was written since the last call."""
        messages, self.said_so_far = self.said_so_far, []
        return messages


def queued(message: Message) -> QueuedMessage:
    """A message as its session queues it."""
    match message:
        case EntryMessage():
            entry = decode_entry(message.entry)
            live_entry = ((entry.public_key, entry.log_id), entry.seq_num)
            return QueuedMessage(encode(message), message.session_id, live_entry)
        case Have() | SyncDone():
            return QueuedMessage(encode(message), message.session_id)
        case _:
            return QueuedMessage(encode(message))


@contextlib.asynccontextmanager
async def running(store: Store) -> AsyncIterator[Rig]:
    rig = Rig(store)
    task = asyncio.create_task(rig.writer.run())
    try:
        yield rig
    finally:
        task.cancel()
        await asyncio.wait({task})


def part(log: Sequence[CheckedOperation], first: int, last: int, session_id: int = 0) -> EntryRange:
    return EntryRange(session_id, *log[0].log, first, last)


def messages(log: Sequence[CheckedOperation], first: int, last: int, session_id: int = 0) -> list[Message]:
    return [
        EntryMessage(session_id, operation.entry_bytes, operation.payload_bytes)
        for operation in log[first - 1 : last]
    ]


async def test_a_range_goes_out_as_far_as_it_has_come_and_what_follows_waits() -> None:
    store = Store(*LOGS)
    store.come(LOGS[0], 2)
    async with running(store) as rig:
        await rig.say(part(LOGS[0], 1, 6), part(LOGS[1], 3, 4), SyncDone(0, True))
        assert rig.said() == messages(LOGS[0], 1, 2)
        assert (rig.metrics.ranges_held_back, rig.link.quiet.is_set()) == (2, False)
        live = messages(LOGS[1], 5, 5)
        await rig.say(*live)
        store.come(LOGS[0], 4)
        await rig.settle()
        assert rig.said() == messages(LOGS[0], 3, 4)
        store.come(LOGS[1], 5)
        await rig.settle()
        assert rig.said() == messages(LOGS[1], 3, 4)
        store.come(LOGS[0], 6)
        await rig.settle()
        assert rig.said() == [*messages(LOGS[0], 5, 6), SyncDone(0, True), *live]
        assert (rig.metrics.ranges_held_back, rig.link.quiet.is_set()) == (0, True)


async def test_entries_that_two_others_have_brought_are_delivered_as_far_as_either() -> None:
    store = Store(*LOGS)
    async with running(store) as rig:
        await rig.say(*messages(LOGS[0], 1, 5), *messages(LOGS[1], 1, 2), *messages(LOGS[0], 1, 3))
        assert rig.writer.deliveries.take() == (rig.written, {LOGS[0][0].log: 5, LOGS[1][0].log: 2})


async def test_reconciliation_and_other_sessions_pass() -> None:
    store = Store(*LOGS)
    store.come(LOGS[1], 6)
    async with running(store) as rig:
        await rig.say(part(LOGS[0], 1, 6), SyncDone(0, True))
        passing = [
            Terminal(0),
            SyncRequest(1, 0, (SCHEMA,)),
            SyncDone(1, True),
            *messages(LOGS[1], 1, 1, 300),
        ]
        await rig.say(*passing, part(LOGS[1], 2, 3, 300))
        assert rig.said() == [*passing, *messages(LOGS[1], 2, 3, 300)]


async def test_what_never_comes_holds_up_nothing_once_it_is_given_up() -> None:
    store = Store(*LOGS)
    async with running(store) as rig:
        await rig.say(part(LOGS[0], 1, 6), part(LOGS[1], 1, 6), SyncDone(0, True))
        assert rig.said() == []
        store.there[LOGS[1][0].log] = 3
        store.give_up()
        await rig.settle()
        assert rig.said() == [*messages(LOGS[1], 1, 3), SyncDone(0, True)]
        assert rig.metrics.ranges_held_back == 0


async def test_what_comes_between_asking_and_reading_is_not_missed() -> None:
    class Sudden(Store):
        async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
            pairs_by_range = await super().read_ranges(ranges, max_bytes)
            if self.there[LOGS[0][0].log] != 6:
                # Behind the reader's back, before the writer has heard of what it read.
                self.come(LOGS[0], 6)
            return pairs_by_range

    store = Sudden(*LOGS)
    store.come(LOGS[0], 1)
    async with running(store) as rig:
        await rig.say(part(LOGS[0], 1, 6), SyncDone(0, True))
        assert rig.said() == [*messages(LOGS[0], 1, 6), SyncDone(0, True)]


async def test_what_waits_behind_a_held_back_range_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_MAX_BEHIND", 3)
    store = Store(*LOGS)
    async with running(store) as rig:
        await rig.say(part(LOGS[0], 1, 6), *messages(LOGS[1], 1, 6), SyncDone(0, True))
        # Three are kept here, the rest stays in the outbox, whose bounds are the protocol's.
        assert len(rig.outbox) == 4
        store.come(LOGS[0], 6)
        await rig.settle()
        assert rig.said() == [*messages(LOGS[0], 1, 6), *messages(LOGS[1], 1, 6), SyncDone(0, True)]
