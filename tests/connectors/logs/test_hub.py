"""The hub of replicated logs and the pool that checks entries: in order, durable, indexed, notified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from culm_connectors.kafka import ProduceFailed
from culm_connectors.logs.check_pool import CHUNK_PAIRS, INLINE_PAIRS, CheckPool
from culm_connectors.logs.hub import Arrival, LogHub, Stored
from culm_connectors.logs.index import IndexWriter, LmdbLogStore
from culm_connectors.logs.warm_start.claims import HeightClaims
from culm_models.bamboo.checks import CheckedEntry, SoundEntry
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import check_many, peek
from tests.support.hostile.attacks import forked_logs
from tests.support.p2panda.logs import author, make_log

PEER = b"p" * 32
LOG = make_log(author("hub"), 0, 6)


class Topic:
    """Stands for Kafka: acknowledges when it is let."""

    def __init__(self) -> None:
        self.acknowledges = asyncio.Event()
        self.acknowledges.set()
        self.fails = False

    async def entries(self, arrivals: Sequence[Arrival]) -> None:
        await self.acknowledges.wait()
        if self.fails:
            raise ProduceFailed("Kafka took nothing")


class Listener:
    """A subscriber that looks into the index at the moment it is told."""

    def __init__(self, store: LmdbLogStore) -> None:
        self.told: list[SoundEntry] = []
        self.replacing: list[SoundEntry] = []
        self._store = store

    def on_stored(self, stored: Stored) -> None:
        for entry in stored.entries:
            assert self._store.entry_hash(*entry.log, entry.entry.seq_num) == entry.hash, (
                "indexed before notified"
            )
        self.told += stored.entries
        self.replacing += stored.replacing


class Edge:
    """A hub over an index of its own, with two subscribers."""

    def __init__(self, folder: Path) -> None:
        self.topic = Topic()
        self.store = LmdbLogStore(peek, folder)
        self.index = IndexWriter(self.store)
        self.hub = LogHub(self.topic, self.index, HeightClaims(self.store.height))
        self.first, self.second = Listener(self.store), Listener(self.store)
        self.hub.subscribe(self.first)
        self.hub.subscribe(self.second)


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    made = Edge(tmp_path / "index")
    yield made
    made.index.close()
    made.store.close()


def arrivals(entries: Sequence[SoundEntry]) -> list[Arrival]:
    return [Arrival(entry, PEER, 0) for entry in entries]


async def test_what_kafka_has_not_acknowledged_is_neither_indexed_nor_notified(edge: Edge) -> None:
    edge.topic.acknowledges.clear()
    storing = asyncio.create_task(edge.hub.store(arrivals(LOG)))
    await asyncio.sleep(0.05)
    assert (edge.store.height(*LOG[0].log), edge.first.told) == (0, [])
    edge.topic.acknowledges.set()
    assert await storing == []
    assert edge.first.told == edge.second.told == LOG


async def test_what_kafka_does_not_take_is_of_no_consequence_here(edge: Edge) -> None:
    edge.topic.fails = True
    with pytest.raises(ProduceFailed):
        await edge.hub.store(arrivals(LOG))
    assert (edge.store.height(*LOG[0].log), edge.first.told) == (0, [])


async def test_the_bringer_is_told_by_the_return_and_everybody_else_once(edge: Edge) -> None:
    arrived = arrivals([*LOG[:3], LOG[4]])
    assert await edge.hub.store(arrived, edge.first) == [LOG[4]], "it stands above a gap"
    assert (edge.first.told, edge.second.told) == ([], LOG[:3])
    assert await edge.hub.store(arrivals(LOG[:4])) == []
    assert (edge.first.told, edge.second.told) == ([LOG[3]], LOG[:4]), "what is held already is no news"


async def test_entries_of_topics_are_indexed_with_the_offsets_that_cover_them(edge: Edge) -> None:
    await edge.hub.take(LOG, {("culm.entries", 0): 7}, truth=False)
    assert edge.store.offsets() == {("culm.entries", 0): 7}
    assert edge.first.told == edge.second.told == LOG


async def test_the_truth_names_where_another_branch_was_cut_back(edge: Edge) -> None:
    ((ours, theirs),) = forked_logs(author("mallory"), 1, 4)
    await edge.hub.store(arrivals(ours))
    await edge.hub.take(theirs, {}, truth=True)
    assert edge.first.replacing == [theirs[1]]
    assert edge.store.entry_hash(*theirs[0].log, 4) == theirs[3].hash


@pytest.mark.parametrize("count", [0, 1, INLINE_PAIRS, INLINE_PAIRS + 1, 20])
async def test_results_are_in_order_whether_checked_at_once_or_in_a_thread(count: int) -> None:
    log = make_log(author("alice"), 0, count) if count else []
    pool = CheckPool(1, check_many)
    try:
        checked = await pool.submit([(entry.entry_bytes, entry.payload_bytes) for entry in log])
    finally:
        pool.close()
    assert checked == log
    assert pool.waiting == 0


async def test_few_entries_wait_their_turn_behind_many() -> None:
    log = make_log(author("bob"), 0, 20)
    pairs = [(entry.entry_bytes, entry.payload_bytes) for entry in log]
    pool = CheckPool(1, check_many)
    try:
        many = pool.submit(pairs)
        submitted = pool.submit(pairs[:1])
        assert not submitted.done(), "it went to the threads, behind what waits there"
        assert len(await many) == 20
        assert await submitted == log[:1]
    finally:
        pool.close()


async def test_a_forged_entry_is_an_error_in_its_place_at_once_too() -> None:
    (good,) = make_log(author("carol"), 0, 1)
    forged = good.entry_bytes[:-1] + bytes([good.entry_bytes[-1] ^ 1])
    pool = CheckPool(1, check_many)
    try:
        first, second = await pool.submit(
            [(forged, good.payload_bytes), (good.entry_bytes, good.payload_bytes)]
        )
    finally:
        pool.close()
    assert isinstance(first, CulmError)
    assert first.code == "bamboo.signature"
    assert isinstance(second, CheckedEntry)


async def test_owners_take_turns_a_chunk_at_a_time() -> None:
    log = make_log(author("dora"), 0, 3)
    sound = [(entry.entry_bytes, entry.payload_bytes) for entry in log]
    pool = CheckPool(1, check_many)
    order: list[str] = []

    def note(name: str, _: object) -> None:
        order.append(name)

    try:
        flood = [pool.submit([*sound] * CHUNK_PAIRS, owner="flood") for _ in range(4)]
        honest = pool.submit(sound, owner="honest")
        for name, work in (("honest", honest), *(("flood", pairs) for pairs in flood)):
            work.add_done_callback(partial(note, name))
        results = [await checked for checked in flood]
    finally:
        pool.close()
    assert order.index("honest") <= 1, "no more than what was begun goes before"
    assert results[0] == log * CHUNK_PAIRS, "the chunks are put together in order"


async def test_what_is_cancelled_is_not_checked() -> None:
    log = make_log(author("emil"), 0, 3)
    sound = [(entry.entry_bytes, entry.payload_bytes) for entry in log]
    pool = CheckPool(1, check_many)
    try:
        given_up = pool.submit([*sound] * 50 * CHUNK_PAIRS, owner="gone")
        given_up.cancel()
        assert await pool.submit(sound, owner="stays") == log
        assert pool.waiting <= 2 * CHUNK_PAIRS
    finally:
        pool.close()
