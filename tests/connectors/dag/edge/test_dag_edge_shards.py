"""Shards at an edge: gone where they are blocked (R33), read again where they were left out or lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.dag.edge.tables import SHARDS_TOPIC
from culm_connectors.dag.service import SpooledPart
from culm_connectors.kafka import Batch, ProducerRecord
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus
from culm_models.testing.dag.scenario import SEEDS, SPACES, large_shard
from culm_topics.dag.records import BlockedRecord, ShardChunkRecord, shard_chunk_key
from tests.support.dag.edge import EdgeParts, ListedTopics, edge_parts
from tests.support.process.waiting import until

SPACE, OTHER_SPACE = SPACES[0], SPACES[1]
SHARD, BYTES = large_shard(0)
SIZE = len(BYTES)
BLOCKED = BlockedRecord("unwanted", 1).encode()
KEYS_OF_BLOCKS = pytest.mark.parametrize("key", [SHARD.raw, SPACE], ids=["shard", "space"])


async def bring(edge: EdgeParts, space: bytes = SPACE) -> SpooledPart:
    for at in range(0, SIZE, CHUNK_SIZE):
        part = await edge.service.spool_part(space, SHARD, SIZE, at, BYTES[at : at + CHUNK_SIZE], SEEDS[0])
    return part


def drop_from(topics: ListedTopics) -> None:
    """What an operator's command writes to `dag.shards`."""
    keys = {record["key"] for record in topics.records("dag.shards")}
    topics.topics["dag.shards"] += [ProducerRecord(key=key, value=None) for key in sorted(keys)]


def block(topics: ListedTopics, key: bytes, value: bytes | None = BLOCKED) -> None:
    topics.topics.setdefault("dag.blocked", []).append(ProducerRecord(key=key, value=value))


async def is_here(edge: EdgeParts) -> bool:
    return await edge.service.read_shard(SHARD, 0, SIZE) == BYTES


async def is_to_be_read_again(edge: EdgeParts) -> bool:
    return await edge.service.work(lambda _: edge.folder.tables.begin_again(SHARDS_TOPIC, "dag.shards"))


@KEYS_OF_BLOCKS
async def test_what_came_again_between_its_drop_and_its_block_goes(tmp_path: Path, key: bytes) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path / "one", topics) as edge:
        await bring(edge)
        await edge.follow()
        block(topics, key)
        drop_from(topics)
        await edge.follow("dag.shards")
        assert not await is_here(edge)
        # Its block was not read yet: a peer that has it brings it, and the topic has it again.
        assert (await bring(edge)).status is AckStatus.DURABLE
        await edge.follow("dag.blocked")
        assert not await is_here(edge)
        await edge.follow("dag.shards")
        assert not await is_here(edge)
        assert (await bring(edge)).code == "dag.blocked"
    for number, order in enumerate([("dag.blocked", "dag.shards"), ("dag.shards", "dag.blocked")]):
        async with edge_parts(tmp_path / str(number), topics) as other:
            await other.follow(*order)
            assert not await is_here(other)
            # Lifted, it is read in the same way whatever was first.
            await other.service.work(lambda _, other=other: other.folder.follow_blocked(key, None))  # type: ignore[misc]
            assert await is_to_be_read_again(other)
            await other.follow("dag.shards", again=True)
            assert await is_here(other)


@pytest.mark.parametrize("is_block_first", [True, False])
async def test_a_drop_that_is_lifted_has_nothing_read_again(tmp_path: Path, is_block_first: bool) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path, topics) as edge:
        await bring(edge)
        await edge.follow()
        block(topics, SHARD.raw)
        drop_from(topics)
        names = ("dag.blocked", "dag.shards")
        await edge.follow(*(names if is_block_first else names[::-1]))
        assert not await is_here(edge)
        block(topics, SHARD.raw, None)
        await edge.follow("dag.blocked")
        assert not await is_to_be_read_again(edge)
        assert (await bring(edge)).status is AckStatus.DURABLE


async def test_a_blocked_space_leaves_a_shard_that_an_open_space_has(tmp_path: Path) -> None:
    async with edge_parts(tmp_path / "came", ListedTopics()) as edge:
        await bring(edge)
        await edge.service.work(lambda _: edge.folder.place_shard(OTHER_SPACE, SHARD))
        await edge.service.work(lambda _: edge.folder.follow_blocked(SPACE, "unwanted"))
        assert await is_here(edge)
        await edge.service.work(lambda _: edge.folder.follow_blocked(OTHER_SPACE, "unwanted"))
        assert not await is_here(edge)
        # Either space may get it again.
        await edge.service.work(lambda _: edge.folder.follow_blocked(SPACE, None))
        assert await is_to_be_read_again(edge)
    async with edge_parts(tmp_path / "named", ListedTopics()) as edge:
        await bring(edge)
        await edge.service.receive(OTHER_SPACE, [encode_append([SHARD]).data], SEEDS[0])
        await edge.service.work(lambda _: edge.folder.follow_blocked(SPACE, "unwanted"))
        assert await is_here(edge)


@KEYS_OF_BLOCKS
async def test_half_a_shard_of_the_topic_takes_no_room_once_it_is_blocked(tmp_path: Path, key: bytes) -> None:
    topics = ListedTopics()
    async with edge_parts(tmp_path / "one", topics) as edge:
        await bring(edge)
    whole = topics.records("dag.shards")
    topics.topics["dag.shards"] = whole[:1]
    async with edge_parts(tmp_path / "other", topics) as other:
        await other.follow()
        assert any((other.folder.folder / "spools").iterdir())
        block(topics, key)
        await other.follow("dag.blocked")
        assert not any((other.folder.folder / "spools").iterdir())
        topics.topics["dag.shards"] = whole
        block(topics, key, None)
        await other.follow("dag.blocked")
        assert await is_to_be_read_again(other)
        await other.follow("dag.shards", again=True)
        assert await is_here(other)


async def test_who_waits_for_what_is_blocked_meanwhile_is_not_told_that_it_is_had(tmp_path: Path) -> None:
    topics = ListedTopics()
    topics.answers.clear()
    async with edge_parts(tmp_path, topics) as edge:
        bringing = asyncio.create_task(bring(edge))
        await until(lambda: topics.asked)
        await edge.service.work(lambda _: edge.folder.follow_blocked(SHARD.raw, "unwanted"))
        topics.answers.set()
        assert (await bringing).status is AckStatus.LATER
        assert (await bring(edge)).code == "dag.blocked"


PEER = SEEDS[0]
BLOCK = BlockedRecord("unwanted", 1).encode()


class FollowedTopics:
    """Topics that are lists, as a follower opens them; `came` tells of further records."""

    def __init__(self, topics: ListedTopics) -> None:
        self.topics = topics
        self.came = asyncio.Condition()
        self.opened: list[str] = []

    def topic(self, name: str) -> str:
        return name

    @contextlib.asynccontextmanager
    async def open(
        self, name: str, offsets: Mapping[tuple[str, int], int], *, skip_lost: bool
    ) -> AsyncIterator[Any]:
        self.opened.append(name)
        yield _Reader(self, name, offsets.get((name, 0), 0))

    async def put(self, name: str, key: bytes, value: bytes) -> None:
        async with self.came:
            self.topics.topics.setdefault(name, []).append(ProducerRecord(key=key, value=value))
            self.came.notify_all()


class _Reader:
    def __init__(self, topics: FollowedTopics, name: str, at: int) -> None:
        self.topics, self.name, self.at = topics, name, at

    def _take(self) -> Batch:
        batch = self.topics.topics.batch(self.name, self.at)
        self.at = len(self.topics.topics.records(self.name))
        return batch

    async def read_to_end(self) -> AsyncIterator[Batch]:
        yield self._take()

    async def get(self) -> Batch:
        async with self.topics.came:
            await self.topics.came.wait_for(lambda: len(self.topics.topics.records(self.name)) > self.at)
        return self._take()


@contextlib.asynccontextmanager
async def following(path: Path, topics: FollowedTopics) -> AsyncIterator[EdgeParts]:
    """An edge that has read all that was there, and goes on."""
    async with edge_parts(path, topics.topics) as edge:
        consumer: Any = topics
        running = asyncio.create_task(edge.feed.run(consumer))
        await edge.feed.at_ends.wait()
        yield edge
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def topics_with_shard() -> FollowedTopics:
    followed = FollowedTopics(ListedTopics())
    followed.topics.topics["dag.shards"] = [
        ProducerRecord(
            key=shard_chunk_key(SHARD, at),
            value=ShardChunkRecord(SIZE, BYTES[at : at + CHUNK_SIZE], SPACE, PEER).encode(),
        )
        for at in range(0, SIZE, CHUNK_SIZE)
    ]
    return followed


async def has_shard(edge: EdgeParts) -> bool:
    return await edge.service.read_shard(SHARD, 0, SIZE) == BYTES


@pytest.mark.parametrize("key", [SPACE, SHARD.raw])
async def test_what_is_blocked_no_more_gets_the_shards_that_were_left_out(tmp_path: Path, key: bytes) -> None:
    topics = topics_with_shard()
    async with edge_parts(tmp_path, topics.topics) as edge:
        await edge.service.work(lambda _: edge.folder.follow_blocked(key, "unwanted"))
    async with following(tmp_path, topics) as edge:
        assert await edge.service.shard_size(SHARD) is None
        await topics.put("dag.blocked", SPACES[3], BLOCK)
        await edge.service.work(lambda _: edge.folder.follow_blocked(SPACES[3], None))
        await edge.service.work(lambda _: edge.folder.follow_blocked(key, None))
        await until(lambda: edge.folder.has_shard(SHARD))
        assert await has_shard(edge)
        # It is read again once, and what comes then is taken as ever.
        assert topics.opened.count("dag.shards") == 2


async def test_what_is_blocked_no_more_is_read_by_the_next_process_where_one_dies(
    tmp_path: Path,
) -> None:
    topics = topics_with_shard()
    async with edge_parts(tmp_path, topics.topics) as edge:
        await edge.service.work(lambda _: edge.folder.follow_blocked(SPACE, "unwanted"))
        await edge.follow()
        await edge.service.work(lambda _: edge.folder.follow_blocked(SPACE, None))
    async with following(tmp_path, topics) as edge:
        assert await has_shard(edge)
        assert topics.opened.count("dag.shards") == 1


async def test_a_shard_whose_file_is_damaged_or_gone_is_read_again(tmp_path: Path) -> None:
    topics = topics_with_shard()
    async with following(tmp_path, topics) as edge:
        path = edge.folder.shard_path(SHARD)
    assert path is not None
    for damage in (path.unlink, lambda: path.write_bytes(bytes(SIZE))):
        damage()
        async with following(tmp_path, topics) as edge:
            await edge.service.read_shard(SHARD, 0, 1)
            await until(lambda: edge.folder.has_shard(SHARD))
            assert await has_shard(edge)


@pytest.mark.parametrize("is_gone", [True, False])
async def test_half_a_shard_that_was_lost_with_the_power_is_read_again(tmp_path: Path, is_gone: bool) -> None:
    topics = topics_with_shard()
    records = topics.topics.topics["dag.shards"]
    last = records.pop()
    async with following(tmp_path, topics) as edge:
        (path,) = (edge.folder.folder / "spools").iterdir()
    if is_gone:
        path.unlink()
    else:
        path.write_bytes(bytes(path.stat().st_size))
    async with following(tmp_path, topics) as edge:
        await topics.put("dag.shards", last["key"], last["value"] or b"")
        await until(lambda: edge.folder.has_shard(SHARD))
        assert await has_shard(edge)
        assert not edge.service.refusals.counts
