"""Peers over QUIC at a DAG edge, without a broker: ACK 0 when Kafka has it, offers of what is new, access."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from culm_connectors.dag.edge.access import EdgeAccess
from culm_connectors.dag.edge.metrics import DagMetrics
from culm_connectors.dag.edge.quic_door import DagQuicDoor
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.settings import ALPN
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.edge.access import AccessWatch
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.interface import Address
from culm_connectors.transport.quic import serve
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.ucan.did_key import did_key, did_text
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.wire.messages import CHUNK_SIZE
from culm_models.keys import KeyPair
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import large_shard
from tests.models.dag.signers import DIDS, KEYS, SEEDS, publish, ucan
from tests.support.dag.edge import EdgeParts, ListedTopics, edge_parts
from tests.support.process.waiting import ended, until

SPACE = KEYS[0]
SHARD, BYTES = large_shard(1)
NODE = encode_append([SHARD])
CHUNKS = -(-len(BYTES) // CHUNK_SIZE)
LOCAL = ("127.0.0.1", 0)


@contextlib.asynccontextmanager
async def quic_door(edge: EdgeParts, access: Path | None = None, **settings: Any) -> AsyncIterator[Address]:
    """The door of an edge, open."""
    edge_settings = DagEdgeSettings(**settings)
    rules = EdgeAccess(AccessWatch(access, ["spaces"], 1.0), edge_settings)
    door = DagQuicDoor(edge.service, edge_settings, rules, DagMetrics())
    identity = Identity.from_private_key(bytes(range(32)))
    async with serve(LOCAL, identity, TransportSettings(), door.serve, alpn=ALPN) as listener:
        yield listener.address
        await door.finish("the test is over")


def peer_of(path: Path, number: int) -> AbstractAsyncContextManager[DagPeer]:
    """A peer whose key is known."""
    return DagPeer.open(path / f"peer-{number}", identity=Identity.from_private_key(SEEDS[number]))


def filled(folder: DagFolder) -> None:
    folder.put_blocks(SPACE, [NODE.data], received_at=NOW)
    folder.add_shard(SPACE, SHARD, BYTES)
    folder.put_blocks(None, [publish(link=SHARD, origin=NODE.cid).data], received_at=NOW)


@contextlib.asynccontextmanager
async def bringing_to_silent_kafka(path: Path) -> AsyncIterator[tuple[DagPeer, EdgeParts, Address]]:
    """A writer that has something for an edge whose Kafka does not answer yet."""
    topics = ListedTopics()
    topics.answers.clear()
    async with (
        DagPeer.open(path / "writer") as writer,
        edge_parts(path / "edge", topics) as edge,
        quic_door(edge) as address,
    ):
        await writer.work(filled)
        yield writer, edge, address


async def test_a_peer_brings_to_one_edge_what_a_peer_of_another_edge_gets(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with (
        DagPeer.open(tmp_path / "writer") as writer,
        edge_parts(tmp_path / "one", topics) as edge,
        quic_door(edge) as address,
    ):
        await writer.work(filled)
        progress = await writer.sync(address, [SPACE])
        # All of it was acknowledged, or is on its way to Kafka and was not.
        await edge.service.until_idle()
        again = await writer.sync(address, [SPACE])
        assert (again.sent_bytes, progress.sent_bytes) == (0, len(BYTES))
    async with (
        DagPeer.open(tmp_path / "reader") as reader,
        edge_parts(tmp_path / "other", topics) as other,
        quic_door(other) as address,
    ):
        await other.follow()
        await reader.sync(address, [SPACE])
        assert await reader.work(lambda folder: folder.published(SPACE)) == await writer_said(tmp_path)
        assert await reader.work(lambda folder: folder.read_shard(SHARD, 0, len(BYTES))) == BYTES


async def writer_said(tmp_path: Path) -> object:
    async with DagPeer.open(tmp_path / "writer") as writer:
        return await writer.work(lambda folder: folder.published(SPACE))


async def test_nothing_is_acknowledged_that_kafka_has_not(tmp_path: Path) -> None:
    async with bringing_to_silent_kafka(tmp_path) as (writer, edge, address):
        seen: list[int] = []
        syncing = asyncio.create_task(
            writer.sync(address, [SPACE], on_progress=lambda progress: seen.append(progress.acknowledged))
        )
        await until(lambda: len(edge.folder.waiting) == 3)
        assert not any(seen)
        edge.topics.answers.set()
        progress = await syncing
        assert progress.acknowledged == 3
        assert {name: len(records) for name, records in edge.topics.topics.items()} == {
            "dag.nodes": 1,
            "dag.publishes": 1,
            "dag.shards": CHUNKS,
        }


async def test_who_brings_again_what_is_on_its_way_to_kafka_hears_of_it_when_kafka_has_it(
    tmp_path: Path,
) -> None:
    async with bringing_to_silent_kafka(tmp_path) as (writer, edge, address):
        lost = asyncio.create_task(writer.sync(address, [SPACE]))
        await until(lambda: len(edge.folder.waiting) == 3)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)
        seen: list[tuple[int, list[object]]] = []
        syncing = asyncio.create_task(
            writer.sync(
                address,
                [SPACE],
                on_progress=lambda progress: seen.append((progress.acknowledged, list(progress.later))),
            )
        )
        # The shard is told to come later: all has been offered and asked for again.
        await until(lambda: any(later for _, later in seen))
        assert not any(acknowledged for acknowledged, _ in seen)
        edge.topics.answers.set()
        progress = await syncing
        assert [cid for cid, _ in progress.later] == [SHARD]
        assert not progress.refused
        assert len(edge.folder.waiting) <= 1, "the shard may still be on its way"
        assert (await writer.sync(address, [SPACE])).sent_bytes == 0


async def test_what_one_peer_brings_another_one_is_offered_at_once(tmp_path: Path) -> None:
    topics = ListedTopics()
    async with (
        DagPeer.open(tmp_path / "writer") as writer,
        DagPeer.open(tmp_path / "reader") as reader,
        edge_parts(tmp_path / "edge", topics) as edge,
        quic_door(edge) as address,
    ):
        arrived = asyncio.Event()
        following = asyncio.create_task(
            reader.follow(
                address,
                [SPACE],
                on_progress=lambda progress: arrived.set() if progress.shards else None,
            )
        )
        await writer.work(filled)
        await writer.sync(address, [SPACE])
        await ended(arrived.wait())
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert await reader.work(lambda folder: folder.has_node(SPACE, NODE.cid))


async def test_who_may_not_append_is_told_so_and_a_ucan_opens(tmp_path: Path) -> None:
    topics = ListedTopics()
    service = did_key(KEYS[5])
    verdict = ValidationRules(services=(service,))
    settings: dict[str, Any] = {"append": "ucan", "read": "ucan", "services": (did_text(service),)}
    # The folder judges by the deployment's rules, as whoever shows a UCAN counts on.
    async with (
        edge_parts(tmp_path / "edge", topics, verdict=verdict) as edge,
        quic_door(edge, **settings) as address,
        peer_of(tmp_path, 0) as writer,
    ):
        await writer.work(filled)
        progress = await writer.sync(address, [SPACE])
        assert {code for _, code in progress.refused} == {"dag.not_allowed"}
        assert not topics.topics
        tokens = [ucan(0, 5, {"can": ability, "with": DIDS[0]}) for ability in ("dag/append", "dag/read")]
        await writer.sync(address, [SPACE], show=[(SPACE, token.block) for token in tokens])
        await edge.service.until_idle()
        assert len(topics.records("dag.shards")) == CHUNKS


async def test_the_allow_list_says_who_may_do_what_in_which_space(tmp_path: Path) -> None:
    topics = ListedTopics()
    path = tmp_path / "allowed.toml"
    writer_key, reader_key = KeyPair(SEEDS[1]).public_key.hex(), KeyPair(SEEDS[2]).public_key.hex()
    path.write_text(
        f'[peers]\n[spaces]\n{writer_key} = ["append:{SPACE.hex()}"]\n{reader_key} = ["read:*"]\n'
    )
    async with edge_parts(tmp_path / "edge", topics) as edge, quic_door(edge, path) as address:
        async with peer_of(tmp_path, 1) as writer:
            await writer.work(filled)
            await writer.sync(address, [SPACE])
        await edge.service.until_idle()
        async with peer_of(tmp_path, 2) as reader:
            other = encode_append([])
            await reader.work(lambda folder: folder.put_blocks(SPACE, [other.data], received_at=NOW))
            progress = await reader.sync(address, [SPACE])
            assert (other.cid, "dag.not_allowed") in progress.refused
            assert await reader.work(lambda folder: folder.has_shard(SHARD))
        async with peer_of(tmp_path, 3) as stranger:
            progress = await stranger.sync(address, [SPACE])
            assert not await stranger.work(lambda folder: folder.has_shard(SHARD))
