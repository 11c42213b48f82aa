"""`culm connector run` with p2panda nodes: where it serves them, and how mistakes are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.transport.libp2p.multiaddr import parse_multiaddr
from tests.connectors.edge.test_edge_commands import culm, serving
from tests.support.edge import topics


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dial", "/ip4/nowhere/udp/1/quic-v1"), "no ip4 address"),
        (("--dial", "/ip4/127.0.0.1/tcp/2022"), "/udp/2022/quic-v1"),
        (("--listen-libp2p", "nowhere"), "HOST:PORT"),
    ],
)
def test_a_wrong_address_of_a_node_is_answered_with_a_right_one(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = culm("connector", "run", *arguments, "--dir", tmp_path, check=False, CULM_BOOTSTRAP="127.0.0.1:1")
    assert done.returncode == 2
    assert said in done.stderr
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
