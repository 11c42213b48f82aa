"""A local store that cannot be written, or is damaged, interrupts its own protocol and no other one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.protocol import BambooProtocol
from culm_connectors.dag.edge.driver import DagEdge
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.protocol import DagProtocol
from culm_connectors.edge.opening import reopening
from culm_connectors.local_store.errors import StoreDamaged
from culm_connectors.protocols import PROTOCOLS
from culm_connectors.settings import ConnectorSettings
from culm_models.dag.replica.codec import encode_append
from culm_models.errors import CulmError
from culm_models.keys import KeyPair
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import large_shard
from culm_topics.kafka.clients import KafkaSettings
from tests.models.dag.signers import KEYS
from tests.support.bamboo.edge import address, offering, peer_at, until_held
from tests.support.connectors.edge import Edge, ready
from tests.support.dag.edge import dag_address
from tests.support.process.full_disk import PAGE, Disk, leave_no_space
from tests.support.process.waiting import until

pytestmark = pytest.mark.kafka

AUTHOR = KeyPair.generate(b"author whose edge has a full disk")
LOG = (AUTHOR.public_key, 0)
SPACE = KEYS[0]
SHARD, _ = large_shard(1)


def chain(length: int) -> list[bytes]:
    """Nodes that build on each other."""
    node = encode_append([SHARD])
    blocks = [node.data]
    for _ in range(length - 1):
        node = encode_append([SHARD], node.cid)
        blocks.append(node.data)
    return blocks


NODES = chain(400)


def edge_of_both(folder: Path, kafka: KafkaSettings) -> Edge:
    settings = ConnectorSettings(
        directory=folder,
        bamboo=BambooEdgeSettings(listen=("tcp://127.0.0.1:0",)),
        dag=DagEdgeSettings(listen="127.0.0.1:0"),
    )
    return Edge(
        settings,
        kafka,
        protocols=[protocol for protocol in PROTOCOLS if protocol.name in ("bamboo_p2p", "dag")],
    )


def dag(edge: Edge) -> DagEdge:
    protocol = edge.protocols["dag"]
    assert isinstance(protocol, DagProtocol)
    return protocol.edge


def bamboo(edge: Edge) -> BambooPeer:
    protocol = edge.protocols["bamboo_p2p"]
    assert isinstance(protocol, BambooProtocol)
    return protocol.flavours["yamf"].peer


def damage(begin: Callable[[], sqlite3.Connection], commit: Callable[[], object], path: Path) -> None:
    """Overwrite an open database but for its first pages, as a disk that lost writes does."""
    commit()
    other = sqlite3.connect(path)
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(2 * PAGE)
        file.write(b"\xa5" * (size - 2 * PAGE))
    begin().execute("PRAGMA shrink_memory")


def read_all(database: sqlite3.Connection, table: str) -> None:
    database.execute(f"SELECT * FROM {table}").fetchall()


async def until_open_again(edge: Edge, name: str) -> None:
    closed = reopening.ClosedProtocol
    await until(lambda: not isinstance(edge.protocols[name], closed) and not edge.health.why_not_ready())


async def until_closed(edge: Edge, name: str, code: str) -> None:
    await until(lambda: isinstance(edge.protocols[name], reopening.ClosedProtocol))
    (reason,) = [reason for reason in edge.health.why_not_ready() if reason.startswith(f"{name}: ")]
    assert reason.endswith(f"({code})")


async def publish(writer: BambooPeer, count: int) -> None:
    for number in range(count):
        await writer.publish(AUTHOR, 0, bytes([number]) * PAGE)


async def put_nodes(peer: DagPeer, first: int, end: int) -> None:
    await peer.work(lambda folder: folder.put_blocks(SPACE, NODES[first:end], received_at=NOW))


async def until_nodes(edge: Edge, peer: DagPeer, count: int) -> None:
    """Have a peer sync with an edge until the edge holds so many nodes."""

    async def held() -> int:
        return await dag(edge).service.work(lambda folder: len(list(folder.queries.nodes(SPACE))))

    while await held() < count:
        await peer.sync(dag_address(edge), [SPACE])


async def test_bamboo_without_space_goes_on_when_there_is_some_and_dag_meanwhile(
    tmp_path: Path, kafka: KafkaSettings, disk: Disk
) -> None:
    disk.has_space = False
    async with (
        ready(edge_of_both(tmp_path / "edge", kafka)) as edge,
        peer_at(tmp_path / "writer", address(edge), offering(LOG)) as writer,
        DagPeer.open(tmp_path / "dag") as other,
    ):
        await publish(writer, 3)
        await until_held(bamboo(edge), LOG, 3)
        await bamboo(edge).read(lambda store: leave_no_space(store.transaction()))
        await publish(writer, 30)
        await until_closed(edge, "bamboo_p2p", "local_store.full")
        await put_nodes(other, 0, 3)
        await until_nodes(edge, other, 3)
        await until(lambda: disk.asked > 1)
        assert edge.health.why_not_ready(), "closed for as long as there is no space"
        disk.has_space = True
        await until_open_again(edge, "bamboo_p2p")
        await until_held(bamboo(edge), LOG, 33)


async def test_dag_without_space_goes_on_when_there_is_some_and_bamboo_meanwhile(
    tmp_path: Path, kafka: KafkaSettings, disk: Disk
) -> None:
    disk.has_space = False
    async with (
        ready(edge_of_both(tmp_path / "edge", kafka)) as edge,
        peer_at(tmp_path / "writer", address(edge), offering(LOG)) as writer,
        DagPeer.open(tmp_path / "dag") as other,
    ):
        await put_nodes(other, 0, 3)
        await until_nodes(edge, other, 3)
        await dag(edge).service.work(lambda folder: leave_no_space(folder.transaction()))
        await put_nodes(other, 3, 400)
        with pytest.raises(CulmError):
            await until_nodes(edge, other, 400)
        await until_closed(edge, "dag", "local_store.full")
        await publish(writer, 3)
        await until_held(bamboo(edge), LOG, 3)
        disk.has_space = True
        await until_open_again(edge, "dag")
        await until_nodes(edge, other, 400)


async def test_a_folder_of_bamboo_that_is_damaged_while_it_is_open_is_set_aside_and_refilled(
    tmp_path: Path, kafka: KafkaSettings, disk: Disk
) -> None:
    folder = tmp_path / "edge" / "bamboo" / "yamf"
    async with (
        ready(edge_of_both(tmp_path / "edge", kafka)) as edge,
        peer_at(tmp_path / "writer", address(edge), offering(LOG)) as writer,
    ):
        await publish(writer, 30)
        await until_held(bamboo(edge), LOG, 30)
        damaged = bamboo(edge)
        await damaged.read(lambda store: damage(store.transaction, store.commit, folder / "logs.sqlite"))
        with pytest.raises(StoreDamaged):
            await damaged.read(lambda store: read_all(store.transaction(), "parts"))
        await until(lambda: (tmp_path / "edge" / "bamboo" / "yamf.damaged" / "logs.sqlite").exists())
        await until_open_again(edge, "bamboo_p2p")
        await until_held(bamboo(edge), LOG, 30)


async def test_a_folder_of_dags_that_is_damaged_while_it_is_open_is_set_aside_and_refilled(
    tmp_path: Path, kafka: KafkaSettings, disk: Disk
) -> None:
    folder = tmp_path / "edge" / "dag"
    async with (
        ready(edge_of_both(tmp_path / "edge", kafka)) as edge,
        DagPeer.open(tmp_path / "dag") as other,
    ):
        await put_nodes(other, 0, 100)
        await until_nodes(edge, other, 100)
        service = dag(edge).service
        await service.until_idle()
        await service.work(lambda store: damage(store.transaction, store.commit, folder / "dag.sqlite"))
        with pytest.raises(StoreDamaged):
            await service.work(lambda store: read_all(store.transaction(), "nodes"))
        await until(lambda: (tmp_path / "edge" / "dag.damaged" / "dag.sqlite").exists())
        await until_open_again(edge, "dag")
        assert await dag(edge).service.work(lambda store: len(list(store.queries.nodes(SPACE)))) == 100
