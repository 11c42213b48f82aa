"""Bamboo peers at two edges of one deployment, over TCP and a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_models.keys import KeyPair
from tests.support.bamboo_edge import address, bamboo_edge, offering, peer_at, until_held
from tests.support.edge import topics

pytestmark = pytest.mark.kafka

AUTHOR = KeyPair.generate(b"author at an edge")
LOG = (AUTHOR.public_key, 3)


async def test_what_a_peer_publishes_at_one_edge_arrives_live_at_a_peer_of_another(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    kafka = topics(kafka_bootstrap, topic_prefix)
    async with (
        bamboo_edge(tmp_path / "one", kafka) as one,
        bamboo_edge(tmp_path / "other", kafka) as other,
        peer_at(tmp_path / "writer", address(one), offering(LOG)) as writer,
        peer_at(tmp_path / "reader", address(other), FollowedLog(LOG)) as reader,
    ):
        for number in range(5):
            await writer.publish(AUTHOR, 3, b"payload %d" % number)
        await until_held(reader, LOG, 5)
        await writer.publish(AUTHOR, 3, b"x" * 900_000)
        await until_held(reader, LOG, 6)
