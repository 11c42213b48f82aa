"""A connector's links to nodes, with peers of ours in the nodes' place: they speak the nodes' dialect.

What a real node does with it is in `tests/e2e/aquadoggo/test_aquadoggo.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from culm_connectors.clock import steady_ms
from culm_connectors.p2panda.aquadoggo.links import NODE_PROTOCOL
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.transport import ConnectError
from culm_connectors.transport.libp2p.certificate import Libp2pIdentity
from culm_connectors.transport.libp2p.connection import dial_libp2p, serve_libp2p
from culm_connectors.transport.libp2p.multiaddr import Multiaddr, parse_multiaddr
from culm_connectors.transport.reconnect import keep_calling
from culm_models.p2panda.wire.messages import MODE_LOG_HEIGHT
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import ReceiptRecord
from culm_topics.readers.partitions import read_to_end
from tests.connectors.edge.test_edge_commands import culm, serving
from tests.support.connectors.edge import Edge, connector, reference_peer, running, topics, write_document
from tests.support.connectors.quic import LOOPBACK, quick_settings
from tests.support.p2panda.logs import SCHEMA, author, pairs
from tests.support.process.waiting import until

TRANSPORT = quick_settings()


@contextlib.asynccontextmanager
async def a_node(folder: Path, name: str = "node") -> AsyncIterator[ReferencePeer]:
    """It asks for sessions only where it has dialled; a real node always does."""
    async with reference_peer(folder, name, schemas=[SCHEMA], live_mode=False, compat="aquadoggo") as node:
        yield node


@contextlib.asynccontextmanager
async def dialling(node: ReferencePeer, edge: Edge) -> AsyncIterator[None]:
    """The node calls the connector for as long as the context lasts."""
    to, identity = edge.listening_libp2p, Libp2pIdentity.from_private_key(node.key_pair.private_key)
    calling = asyncio.create_task(
        keep_calling(
            node.driver,
            lambda: dial_libp2p(to, identity, TRANSPORT, protocol=NODE_PROTOCOL),
            name="the connector",
        )
    )
    try:
        yield
    finally:
        calling.cancel()
        await asyncio.wait({calling})


@pytest.mark.kafka
async def test_a_node_and_a_live_peer_have_what_either_writes(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,), listen_libp2p=LOOPBACK)) as edge,
        reference_peer(tmp_path, "a") as peer,
        a_node(tmp_path) as node,
    ):
        assert edge.address is not None and edge.nodes is not None
        theirs, ours = await write_document(node, 7), await write_document(peer, 5)
        peer.dial(edge.address)
        async with dialling(node, edge):
            await peer.wait_until_holding({theirs[0].log: 8}, 30)
            await node.wait_until_holding({ours[0].log: 6}, 30)
            # By its sessions, which it begins again and again: there is no live mode.
            more = await write_document(peer, 2)
            await node.wait_until_holding({more[0].log: 3}, 30)
            later = await write_document(node, 1)
            await peer.wait_until_holding({later[0].log: 2}, 30)
        assert list(peer.store.entries(*theirs[0].log, 1, 9)) == pairs(theirs)
        assert list(node.store.entries(*ours[0].log, 1, 9)) == pairs(ours)
        assert edge.nodes.driver.metrics.sessions_live == 0
        metric_values = {
            metric.name: metric.samples[0].value for metric in edge.collector.collect() if metric.samples
        }
        assert metric_values["culm_p2panda_node_entries_accepted"] == 10
        assert metric_values["culm_p2panda_node_entries_sent"] >= 9
        assert not edge.nodes.driver.metrics.rejects


@pytest.mark.kafka
async def test_a_node_has_receipts_for_what_it_shows_alone(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,), listen_libp2p=LOOPBACK)) as edge,
        reference_peer(tmp_path, "a") as peer,
        a_node(tmp_path) as node,
    ):
        assert edge.address is not None
        log = await write_document(peer, 3)
        await peer.sync(edge.address)

        def rows() -> set[tuple[bytes, int, int]]:
            messages = (message for message in read_to_end(kafka, "receipts") if message.key == node.peer_id)
            return {
                row for message in messages for row in ReceiptRecord.decode(message.value or b"").log_heights
            }

        async with dialling(node, edge):
            await node.wait_until_holding({log[0].log: 4}, 30)
            assert not rows()
            # The next session shows it.
            await until(lambda: (*log[0].log, 4) in rows())


@pytest.mark.kafka
async def test_a_connector_calls_a_node(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with a_node(tmp_path) as node:
        identity = Libp2pIdentity.from_private_key(node.key_pair.private_key)
        async with serve_libp2p(
            LOOPBACK, identity, TRANSPORT, node.driver.serve, protocol=NODE_PROTOCOL
        ) as listener:
            to = Multiaddr(listener.address, node.peer_id)
            async with running(connector(tmp_path / "edge", kafka, dial_libp2p=(to,))) as edge:
                own, protocol = edge.key_pair.public_key, node.driver.peer
                log = await write_document(node, 4)

                def is_known_there() -> bool:
                    announced = protocol.remote_announcement(own)
                    return announced is not None and SCHEMA in announced.schema_ids

                await until(is_known_there)
                # As a real node does, whoever has dialled.
                protocol.sync(own, MODE_LOG_HEIGHT, [SCHEMA], steady_ms())
                await until(lambda: edge.index.store.height(*log[0].log) == 5)


@pytest.mark.kafka
async def test_the_allow_list_is_for_nodes_too(tmp_path: Path, kafka: KafkaSettings) -> None:
    rules = tmp_path / "peers.toml"
    rules.write_text(f'[peers]\n{author("node").public_key.hex()} = ["*"]\n')
    async with (
        running(
            connector(
                tmp_path / "edge",
                kafka,
                schemas=(SCHEMA,),
                listen_libp2p=LOOPBACK,
                allow_list=rules,
                reload_interval_s=0.05,
            )
        ) as edge,
        a_node(tmp_path) as node,
        a_node(tmp_path, "stranger") as stranger,
    ):
        assert edge.nodes is not None
        identity = Libp2pIdentity.from_private_key(stranger.key_pair.private_key)
        with pytest.raises(ConnectError, match="allow-list"):
            await dial_libp2p(edge.listening_libp2p, identity, TRANSPORT, protocol=NODE_PROTOCOL)
        links = edge.nodes.driver.links.open
        async with dialling(node, edge):
            await until(lambda: node.peer_id in links)
            rules.write_text("[peers]\n")
            await until(lambda: node.peer_id not in links)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (("--dial", "/ip4/nowhere/udp/1/quic-v1"), "no ip4 address"),
        (("--dial", "/ip4/127.0.0.1/tcp/2022"), "/udp/2022/quic-v1"),
        (("--listen-libp2p", "nowhere"), "HOST:PORT"),
    ],
)
def test_a_wrong_address_of_a_node_is_answered_with_a_right_one(
    tmp_path: Path, arguments: tuple[str, ...], phrase: str
) -> None:
    done = culm("connector", "run", *arguments, "--dir", tmp_path, check=False, CULM_BOOTSTRAP="127.0.0.1:1")
    assert done.returncode == 2
    assert phrase in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.kafka
def test_a_connector_says_where_nodes_reach_it(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    topics(kafka_bootstrap, topic_prefix)
    options = ("--bootstrap", kafka_bootstrap, "--prefix", topic_prefix, "--log-format", "json")
    with serving("connector", "run", *options, "--dir", tmp_path, "--listen-libp2p", "127.0.0.1:0") as where:
        nodes = parse_multiaddr(where["libp2p"])
        assert nodes.peer_id == bytes.fromhex(where["peer_id"])
        assert nodes.address[1] > 0
