"""What an edge has left out of the topic of shards, or has lost, it reads again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.kafka import Batch, ProducerRecord
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_models.testing.dag.scenario import SEEDS, SPACES, large_shard
from culm_topics.dag.records import BlockedRecord, ShardChunkRecord, shard_chunk_key
from tests.support.dag_edge import EdgeParts, ListedTopics, edge_parts
from tests.support.waiting import until

SPACE, PEER = SPACES[0], SEEDS[0]
SHARD, BYTES = large_shard(0)
SIZE = len(BYTES)
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
            self.topics.topics.setdefault(name, []).append(ProducerRecord(key, value))
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
        given: Any = topics
        running = asyncio.create_task(edge.feed.run(given))
        await edge.feed.at_ends.wait()
        yield edge
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def topics_with_shard() -> FollowedTopics:
    found = FollowedTopics(ListedTopics())
    found.topics.topics["dag.shards"] = [
        ProducerRecord(
            shard_chunk_key(SHARD, at),
            ShardChunkRecord(SIZE, BYTES[at : at + CHUNK_SIZE], SPACE, PEER).encode(),
        )
        for at in range(0, SIZE, CHUNK_SIZE)
    ]
    return found


async def has_shard(edge: EdgeParts) -> bool:
    return await edge.room.read_shard(SHARD, 0, SIZE) == BYTES


@pytest.mark.parametrize("key", [SPACE, SHARD.raw])
async def test_what_is_blocked_no_more_gets_the_shards_that_were_left_out(tmp_path: Path, key: bytes) -> None:
    topics = topics_with_shard()
    async with edge_parts(tmp_path, topics.topics) as edge:
        await edge.room.work(lambda _: edge.folder.follow_blocked(key, "unwanted"))
    async with following(tmp_path, topics) as edge:
        assert await edge.room.shard_size(SHARD) is None
        await topics.put("dag.blocked", SPACES[3], BLOCK)
        await edge.room.work(lambda _: edge.folder.follow_blocked(SPACES[3], None))
        await edge.room.work(lambda _: edge.folder.follow_blocked(key, None))
        await until(lambda: edge.folder.has_shard(SHARD))
        assert await has_shard(edge)
        # It is read again once, and what comes then is taken as ever.
        assert topics.opened.count("dag.shards") == 2


async def test_what_is_blocked_no_more_is_read_by_the_next_process_where_one_dies(
    tmp_path: Path,
) -> None:
    topics = topics_with_shard()
    async with edge_parts(tmp_path, topics.topics) as edge:
        await edge.room.work(lambda _: edge.folder.follow_blocked(SPACE, "unwanted"))
        await edge.follow()
        await edge.room.work(lambda _: edge.folder.follow_blocked(SPACE, None))
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
            await edge.room.read_shard(SHARD, 0, 1)
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
        await topics.put("dag.shards", last.key, last.value or b"")
        await until(lambda: edge.folder.has_shard(SHARD))
        assert await has_shard(edge)
        assert not edge.room.refusals.counts
