"""What a hostile peer may do to a whole connector: its other peers are served, and Kafka is not filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.p2panda.schema_shares import MAX_SCHEMAS
from culm_models.p2panda.messages import Announce, Have, SyncDone, SyncRequest
from culm_topics.kafka import KafkaSettings
from tests.support.attacks import invented_schemas, unknown_heights
from tests.support.edge import connector, reference_peer, running, topics, until, write_document
from tests.support.hostile import hostile
from tests.support.logs import SCHEMA, author

pytestmark = pytest.mark.kafka

MALLORY = author("mallory")


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return topics(kafka_bootstrap, topic_prefix)


async def test_a_peer_that_announces_invented_schemas_locks_nobody_out(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=("*",))) as edge,
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
    ):
        assert edge.address is not None
        async with hostile(edge.address, MALLORY) as remote:
            await remote.say(Announce(1, 1, invented_schemas(MAX_SCHEMAS)))
            await until(lambda: len(edge.interest.served) == MAX_SCHEMAS)
            log = await write_document(a, 3)
            a.dial(edge.address)
            await until(lambda: edge.index.store.height(*log[0].log) == 4)
            assert SCHEMA in edge.interest.served


async def test_heights_of_unknown_logs_make_no_receipts(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        assert edge.address is not None
        async with hostile(edge.address, MALLORY) as remote:
            for session_id in range(3):
                heights = unknown_heights(1_000, first=1_000 * session_id)
                await remote.say(
                    Announce(1, session_id + 1, (SCHEMA,)),
                    SyncRequest(session_id, 0, (SCHEMA,)),
                    Have(session_id, heights),
                    SyncDone(session_id, False),
                )
            await until(lambda: edge.driver.metrics.sessions_done == 3)
        await edge.publication.tell()
        assert edge.publication.told["receipts"] == 0


async def test_a_peer_is_told_of_the_schemas_that_it_may_have(tmp_path: Path, kafka: KafkaSettings) -> None:
    secret = "secret_0020" + "5" * 64
    path = tmp_path / "allowed.toml"
    path.write_text(f'[peers]\n{MALLORY.public_key.hex()} = ["{SCHEMA}"]\n"*" = ["*"]\n')
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA, secret), allow_list=path)) as edge,
        reference_peer(tmp_path, "a", schemas=["*"]) as a,
    ):
        assert edge.address is not None
        async with hostile(edge.address, MALLORY) as remote:
            a.dial(edge.address)
            await until(lambda: secret in a.announced)
            await until(lambda: remote.heard)
            told = {name for one in remote.heard if isinstance(one, Announce) for name in one.schema_ids}
            assert SCHEMA in told
            assert secret not in told
