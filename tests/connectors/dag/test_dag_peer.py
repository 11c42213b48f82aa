"""Peers over QUIC (reference 6, R34): they come to hold the same, and stopped transfers go on."""

from __future__ import annotations

import asyncio
import random
import sys
from asyncio import StreamReader
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from culm_connectors.dag.author import delegate, publish_link, put_own
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.progress import SyncProgress
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.tokens import ShownTokens
from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car import car_header, car_section
from culm_models.dag.exchange.settings import SpaceAbility, SpaceAccess
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.ucan.did_key import did_key
from culm_models.keys import KeyPair
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SEEDS, SPACES, draw_scenario, large_shard
from tests.support.process.waiting import while_working

SPACE = SPACES[0]
SHARD, SHARD_BYTES = large_shard(1)
NODE = encode_append([SHARD])
LOCAL = ("127.0.0.1", 0)


def filled(folder: DagFolder) -> None:
    folder.put_blocks(SPACE, [NODE.data], received_at=NOW)
    folder.add_shard(SPACE, SHARD, SHARD_BYTES)


@pytest.mark.parametrize("seed", [3, 5])
async def test_peers_come_to_hold_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    scenario = draw_scenario(rng)
    async with DagPeer.open(tmp_path / "a") as peer, DagPeer.open(tmp_path / "b") as other:

        def fill(folder: DagFolder) -> None:
            for space, _, block in scenario.nodes:
                if rng.random() < 0.7:
                    folder.put_blocks(space, [block], received_at=NOW)
            for space, cid, data in scenario.shards:
                if rng.random() < 0.7:
                    folder.add_shard(space, cid, data)

        await peer.work(fill)
        await other.work(fill)
        seen: list[SyncProgress] = []
        async with other.listen(LOCAL) as address:
            await peer.sync(address, scenario.spaces, on_progress=seen.append)
            again = await peer.sync(address, scenario.spaces)
        assert seen
        assert (again.nodes, again.shards, again.received_bytes, again.sent_bytes) == (0, 0, 0, 0)
        for space in scenario.spaces:

            def said(folder: DagFolder, space: bytes = space) -> object:
                return [
                    *(cid for cid, _ in folder.queries.nodes(space)),
                    *folder.shards(space),
                    *folder.dag_heads(space),
                    folder.published(space),
                ]

            assert await peer.work(said) == await other.work(said)


async def test_a_shard_is_verified_before_it_is_seen(tmp_path: Path) -> None:
    async with DagPeer.open(tmp_path / "a") as peer, DagPeer.open(tmp_path / "b") as other:
        await other.work(filled)
        path = await other.work(lambda folder: folder.shard_path(SHARD))
        assert path is not None
        path.chmod(0o600)
        path.write_bytes(SHARD_BYTES[:-1] + bytes([SHARD_BYTES[-1] ^ 1]))
        async with other.listen(LOCAL) as address:
            result = await peer.sync(address, [SPACE])
        assert result.refused == [(SHARD, "dag.hash")]
        assert not await peer.work(lambda folder: folder.has_shard(SHARD))
        assert await peer.work(lambda folder: folder.spooled(other.identity.peer_id, SHARD)) is None


async def test_who_may_do_nothing_gets_and_gives_nothing(tmp_path: Path) -> None:
    def nothing(peer: bytes, shown: ShownTokens) -> SpaceAccess:
        def access(space: bytes, ability: SpaceAbility) -> str | None:
            return "dag.not_allowed"

        return access

    folder = DagFolder(tmp_path / "b", create=True)
    async with (
        DagPeer.open(tmp_path / "a") as peer,
        DagPeer.over(folder, access=nothing) as other,
    ):
        mine = encode_append([])
        await peer.work(lambda folder: folder.put_blocks(SPACE, [mine.data], received_at=NOW))
        await other.work(filled)
        async with other.listen(LOCAL) as address:
            result = await peer.sync(address, [SPACE])
        assert (mine.cid, "dag.not_allowed") in result.refused
        assert (result.nodes, result.shards) == (0, 0)
        assert await other.work(lambda folder: folder.node(SPACE, mine.cid)) is None
    folder.close()


async def test_what_comes_is_offered_to_the_others(tmp_path: Path) -> None:
    async with (
        DagPeer.open(tmp_path / "a") as peer,
        DagPeer.open(tmp_path / "b") as middle,
        DagPeer.open(tmp_path / "c") as other,
        middle.listen(LOCAL) as address,
    ):
        await peer.work(filled)
        kept = asyncio.Event()

        def look(progress: SyncProgress) -> None:
            if progress.shards:
                kept.set()

        async def follow() -> None:
            # It is done at once, and hears of what comes later as long as it stays.
            await other.follow(address, [SPACE], on_progress=look)

        following = asyncio.create_task(follow())
        await peer.sync(address, [SPACE])
        async with while_working():
            await kept.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert await other.work(lambda folder: folder.has_shard(SHARD))


def shard_of(size: int) -> tuple[Cid, bytes]:
    """A shard of about so many bytes."""
    blocks = [random.Random(n).randbytes(1_000_000) for n in range(size // 1_000_000)]
    cids = [cid_of(RAW, block) for block in blocks]
    data = car_header([]) + b"".join(map(car_section, cids, blocks))
    return cid_of(CAR, data), data


async def started(folder: Path, seed: bytes, address: tuple[str, int]) -> tuple[Process, StreamReader]:
    """A peer of its own that syncs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).with_name("peer_process.py")), str(folder)),
        *(seed.hex(), address[0], str(address[1]), SPACE.hex()),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    return process, process.stdout


async def test_a_killed_end_goes_on_within_the_shard_in_flat_memory(tmp_path: Path) -> None:
    """SIGKILL in the middle of 50 MB; what had come is not sent again."""
    shard, data = shard_of(50_000_000)
    seed = bytes([7]) * 32
    async with DagPeer.open(tmp_path / "whole") as server:
        await server.work(lambda folder: folder.add_shard(SPACE, shard, data))
        async with server.listen(LOCAL) as address:
            process, output = await started(tmp_path / "killed", seed, address)
            while int(await output.readline()) < 5_000_000:
                pass
            process.kill()
            await process.wait()
            folder = DagFolder(tmp_path / "killed")
            spooled = folder.spooled(server.identity.peer_id, shard)
            folder.close()
            assert spooled is not None
            spooled_size = sum(length for _, length in spooled[1])
            assert 4_000_000 < spooled_size < len(data)
            process, output = await started(tmp_path / "killed", seed, address)
            *_, received, grown = [int(line) async for line in output]
            assert await process.wait() == 0
    assert received == len(data) - spooled_size
    assert grown < 40_000_000
    folder = DagFolder(tmp_path / "killed")
    assert folder.read_shard(shard, 0, len(data)) == data
    folder.close()


async def test_a_delegation_goes_with_its_space_before_anything_leans_on_it(tmp_path: Path) -> None:
    id, writer = KeyPair(SEEDS[0]), KeyPair(SEEDS[1])
    space = id.public_key
    async with DagPeer.open(tmp_path / "a") as peer, DagPeer.open(tmp_path / "b") as other:

        def begin(folder: DagFolder) -> Cid:
            put_own(folder, space, NODE.data, now=NOW)
            return delegate(folder, id, space, did_key(writer.public_key), now=NOW).cid

        token = await peer.work(begin)
        assert await peer.work(lambda folder: (folder.dag_heads(space), folder.publish_heads(space))) == (
            [NODE.cid],
            [token],
        )
        async with other.listen(LOCAL) as address:
            await peer.sync(address, [space])
            published = await other.work(lambda folder: publish_link(folder, writer, space, SHARD, now=NOW))
            assert published.in_order
            assert await other.work(lambda folder: folder.publish_heads(space)) == [published.cid]
            await peer.sync(address, [space])
            assert await peer.work(lambda folder: folder.tip(space)) == published.cid
            # A second one goes to whoever is connected at once.
            following = asyncio.create_task(peer.follow(address, [space]))
            another = await other.work(
                lambda folder: delegate(folder, id, space, did_key(KeyPair(SEEDS[2]).public_key), now=NOW)
            )
            async with while_working():
                while not await peer.work(lambda folder: folder.read_ucan(another.cid)):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
