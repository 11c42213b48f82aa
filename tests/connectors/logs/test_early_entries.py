"""A log whose entry was missed once on `entries` is live again as soon as the gap is closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from culm_connectors.logs.follow_entries import OVERHEAD_BYTES, EarlyEntries, EntriesFollower
from culm_connectors.logs.hub import LogHub, Stored
from culm_connectors.logs.index import IndexWriter, LmdbLogStore
from culm_connectors.logs.warm_start.claims import HeightClaims
from culm_models.bamboo.checks import SoundEntry
from culm_models.p2panda.operations.operation import check_entry, peek
from culm_topics.logs.records import EntryRecord
from culm_topics.readers.batch import Batch
from culm_topics.records import log_key
from tests.support.hostile.attacks import forked_logs
from tests.support.p2panda.logs import author, make_log

LOG = make_log(author("early"), 0, 9)
OTHER = make_log(author("early"), 1, 4)


class Message:
    """A record of `entries` as another connector produces it."""

    def __init__(self, entry: SoundEntry) -> None:
        record = EntryRecord(
            entry.entry_bytes, entry.payload_bytes, entry.schema_id, b"r" * 32, 0, b"another" + bytes(25)
        )
        self.value = record.encode
        self.key = lambda: log_key(*entry.log)
        self.topic = lambda: "culm.entries"
        self.partition = self.offset = lambda: 0


class Pool:
    """Checks at once."""

    async def submit(self, pairs: Sequence[tuple[bytes, bytes]], *, verify_signature: bool) -> list[object]:
        return [check_entry(*pair) for pair in pairs]


class Edge:
    """A follower of `entries` over an index, and the entries that live peers would get, in order."""

    def __init__(self, folder: Path) -> None:
        self.store = LmdbLogStore(peek, folder)
        self.index = IndexWriter(self.store)
        self.hub = LogHub(cast("Any", None), self.index, HeightClaims(self.store.height))
        self.pool, self.publisher, self.connector_id = Pool(), None, b"this edge's"
        self.live: list[SoundEntry] = []
        self.stored = asyncio.Event()
        self.batches: asyncio.Queue[Batch] = asyncio.Queue()
        self.hub.subscribe(self)
        self.follower = EntriesFollower(cast("Any", self), lambda _: True, max_payload_bytes=1024)

    def on_stored(self, stored: Stored) -> None:
        self.live += stored.entries
        self.stored.set()

    async def brings(self, entries: Sequence[SoundEntry]) -> None:
        """Have `entries` bring these, and wait until the follower has taken them."""
        self.batches.put_nowait(Batch(cast("Any", tuple(map(Message, entries))), {("culm.entries", 0): 1}))
        await self.batches.join()

    async def get(self) -> Batch:
        # The follower asks for the next batch when it is through with the last one.
        if self.asked:
            self.batches.task_done()
        self.asked = True
        return await self.batches.get()

    asked = False

    async def holds(self, count: int) -> None:
        while len(self.live) < count:
            self.stored.clear()
            await self.stored.wait()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    made = Edge(tmp_path / "index")
    following = asyncio.create_task(made.follower.follow(cast("Any", made)))
    yield made
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    made.index.close()
    made.store.close()


async def test_a_log_goes_on_live_once_logs_has_closed_its_gap(edge: Edge) -> None:
    await edge.brings(LOG[:2])
    await edge.brings(LOG[3:6])  # the third was missed
    assert (edge.live, len(edge.follower.early), edge.follower.early.waiting_logs) == (LOG[:2], 3, 1)
    await edge.hub.take([LOG[2]], {}, truth=True)
    await edge.holds(6)
    assert (edge.live, len(edge.follower.early), edge.follower.attached) == (LOG[:6], 0, 3)
    await edge.brings(LOG[6:])
    assert edge.live == LOG


async def test_a_log_goes_on_live_although_logs_closes_the_gap_while_its_author_goes_on(edge: Edge) -> None:
    for number in range(1, 5):
        await edge.brings([LOG[number]])
    await edge.hub.take(LOG[:3], {}, truth=True)
    await edge.holds(5)
    await edge.brings(LOG[5:])
    assert edge.live == LOG


async def test_entries_of_one_batch_may_come_in_any_order(edge: Edge) -> None:
    await edge.brings([LOG[2], LOG[0], OTHER[1], LOG[1], OTHER[0]])
    await edge.holds(5)
    assert sorted(entry.entry.seq_num for entry in edge.live) == [1, 1, 2, 2, 3]


async def test_early_entries_of_another_branch_are_left_to_the_truth(edge: Edge) -> None:
    ((ours, theirs),) = forked_logs(author("mallory"), 1, 4)
    await edge.brings(theirs[2:])
    await edge.hub.take(ours[:2], {}, truth=True)
    await edge.brings(OTHER)
    assert (edge.live, len(edge.follower.early)) == ([*ours[:2], *OTHER], 0)


def test_a_log_gives_up_its_oldest_early_entries() -> None:
    early = EarlyEntries(max_entries_per_log=3)
    for checked in LOG[2:]:
        early.keep(checked)
    assert (len(early), early.dropped) == (3, 4)
    assert early.take_above(LOG[0].log, 6) == LOG[6:]
    assert (len(early), early.waiting_logs) == (0, 0)


def test_in_all_the_log_that_has_waited_longest_gives_up_everything() -> None:
    clock = iter((0.0, 1.0, 5.0))
    entries = (*LOG[1:4], *OTHER[1:])
    capacity = sum(checked.size_bytes + OVERHEAD_BYTES for checked in entries) - 1
    early = EarlyEntries(max_bytes=capacity, now_s=lambda: next(clock))
    for checked in entries:
        early.keep(checked)
    assert early.take_above(LOG[0].log, 1) == []
    assert (early.waiting_logs, early.dropped, early.longest_wait_s()) == (1, 3, 4.0)
    assert early.take_above(OTHER[0].log, 1) == OTHER[1:]


def test_one_entry_above_the_bound_of_a_log_is_not_kept() -> None:
    early = EarlyEntries(max_bytes_per_log=10)
    early.keep(LOG[1])
    assert (len(early), early.waiting_logs, early.dropped) == (0, 0, 1)
