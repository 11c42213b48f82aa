"""What doors are offered by a service over a folder: outcomes, parts of shards, orders and their changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from culm_connectors.dag.service import DagService
from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.blocks.cid import CAR, cid_of
from culm_models.dag.errors import Blocked, HashMismatch, ShardSizeChanged
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SEEDS, SPACES, large_shard
from tests.models.dag.signers import DIDS, KEYS, publish, ucan

SPACE, OTHER_SPACE, PEER, OTHER = SPACES[0], SPACES[1], SEEDS[0], SEEDS[1]
SHARD, BYTES = large_shard(0)
SIZE = len(BYTES)
OFFSETS = range(0, SIZE, CHUNK_SIZE)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[DagService]:
    folder = DagFolder(tmp_path / "dags", create=True)
    async with DagService(folder, lambda: NOW) as service:
        yield service
    folder.close()


async def test_each_block_has_its_outcome_and_says_what_it_waits_for(service: DagService) -> None:
    below = encode_append([])
    above = encode_append([SHARD], below.cid)
    outcomes = await service.receive(SPACE, [above.data, b"\xa0", above.data, below.data], PEER)
    assert [outcome.status for outcome in outcomes] == [
        AckStatus.DURABLE,
        AckStatus.REFUSED,
        AckStatus.HAD,
        AckStatus.DURABLE,
    ]
    assert outcomes[0].missing == (below.cid,)
    assert outcomes[1].code == "dag.schema"
    assert (await service.missing([above.cid])).shards == (SHARD,)


async def test_a_shard_is_durable_with_its_last_part_in_any_order(service: DagService) -> None:
    for offset in reversed(OFFSETS[1:]):
        part = await service.spool_part(SPACE, SHARD, SIZE, offset, BYTES[offset : offset + CHUNK_SIZE], PEER)
        assert part.status is AckStatus.NOT_HERE
    assert part.ranges == ((CHUNK_SIZE, SIZE - CHUNK_SIZE),)
    assert await service.spooled(SHARD, PEER) == (SIZE, part.ranges)
    assert await service.spooled(SHARD, OTHER) is None
    part = await service.spool_part(SPACE, SHARD, SIZE, 0, BYTES[:CHUNK_SIZE], PEER)
    assert part.status is AckStatus.DURABLE
    assert await service.shard_size(SHARD) == SIZE
    assert await service.read_shard(SHARD, 3, 7) == BYTES[3:10]
    assert await service.belongs(SPACE, SHARD) and not await service.belongs(SPACES[1], SHARD)
    part = await service.spool_part(SPACE, SHARD, SIZE, 0, BYTES[:CHUNK_SIZE], OTHER)
    assert part.status is AckStatus.HAD


async def test_parts_of_several_chunks_are_cut_into_chunks(service: DagService) -> None:
    part = await service.spool_part(SPACE, SHARD, SIZE, 0, BYTES, PEER)
    assert part.status is AckStatus.DURABLE


async def test_a_shard_of_other_bytes_is_refused_with_its_code_and_loses_its_spool(
    service: DagService,
) -> None:
    wrong = BYTES[:-1] + bytes([BYTES[-1] ^ 1])
    part = await service.spool_part(SPACE, cid_of(CAR, b"other"), SIZE, 0, wrong, PEER)
    assert (part.status, part.code) == (AckStatus.REFUSED, HashMismatch.code)
    assert await service.spooled(cid_of(CAR, b"other"), PEER) is None


async def test_a_second_size_is_an_error_and_a_blocked_shard_is_refused(service: DagService) -> None:
    await service.spool_part(SPACE, SHARD, SIZE, 0, BYTES[:CHUNK_SIZE], PEER)
    with pytest.raises(ShardSizeChanged):
        await service.spool_part(SPACE, SHARD, SIZE + 1, 0, BYTES[:CHUNK_SIZE], PEER)
    assert (await service.spooled(SHARD, PEER)) == (SIZE, ((0, CHUNK_SIZE),))
    await service.work(lambda folder: folder.set_blocked(SHARD.raw, "unwanted"))
    part = await service.spool_part(SPACE, SHARD, SIZE, 0, BYTES[:CHUNK_SIZE], PEER)
    assert (part.status, part.code) == (AckStatus.REFUSED, Blocked.code)


async def test_who_waits_for_an_id_is_told_that_something_changed(service: DagService) -> None:
    watches = service.watches
    with watches.watching(KEYS[0]):
        since = watches.version(KEYS[0])
        waiting = asyncio.ensure_future(watches.changed(KEYS[0], since))
        node = publish()
        (outcome,) = await service.receive(None, [node.data], PEER)
        assert outcome.in_order
        assert await waiting == watches.version(KEYS[0]) != since
        published = await service.published(KEYS[0])
        assert published.tip is not None and published.tip.cid == node.cid


async def test_what_does_not_concern_an_id_wakes_nobody_who_waits_for_it(service: DagService) -> None:
    append = encode_append([SHARD])
    first, proof = publish(origin=append.cid), ucan(0, 1, {"can": "dag/publish", "with": DIDS[0]})
    second = publish(by=1, prf=[proof.cid], prior=first.cid, origin=append.cid)
    watches = service.watches
    with watches.watching(KEYS[0]), watches.watching(KEYS[1]):
        versions: list[tuple[int, int]] = []
        other = ucan(2, 3, {"can": "dag/publish", "with": DIDS[2]})

        async def seen() -> tuple[int, int]:
            """The versions, once what is published was read."""
            for id in KEYS[:2]:
                await service.published(id)
            return watches.version(KEYS[0]), watches.version(KEYS[1])

        versions.append(await seen())
        await service.receive(None, [first.data], PEER)
        versions.append(await seen())
        # Nodes, a UCAN and shards that nobody names wake nobody, in whichever space they come.
        await service.receive(OTHER_SPACE, [encode_append([]).data, other.block], PEER)
        assert await seen() == versions[-1]
        # The origin, its shard and a proof concern the id that lacks them, also out of another space.
        await service.receive(OTHER_SPACE, [append.data], PEER)
        versions.append(await seen())
        await service.spool_part(OTHER_SPACE, SHARD, SIZE, 0, BYTES, PEER)
        versions.append(await seen())
        await service.receive(None, [second.data], PEER)
        versions.append(await seen())
        await service.receive(OTHER_SPACE, [proof.block], PEER)
        versions.append(await seen())
        published = await service.published(KEYS[0])
        assert published.tip is not None and published.tip.cid == second.cid and not published.missing
        assert len({version for version, _ in versions}) == len(versions)
        assert len({other for _, other in versions}) == 1


async def test_blocks_are_read_away_from_the_loop(service: DagService) -> None:
    node = encode_append([])
    await service.receive(SPACE, [node.data], PEER)
    assert await service.reading(lambda find: find(node.cid)) == node.data
    assert await service.reading(lambda find: find(SHARD)) is None
