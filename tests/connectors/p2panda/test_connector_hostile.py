"""What a hostile peer may do to a whole connector: its other peers are served, and Kafka is not filled."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from culm_connectors.p2panda.interest import MAX_SCHEMAS
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.wire.messages import Announce, Have, SyncDone, SyncRequest
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import ReceiptRecord
from tests.support.attacks import invented_schemas, unknown_heights
from tests.support.edge import Edge, connector, reference_peer, running, write_document
from tests.support.hostile import hostile
from tests.support.logs import SCHEMA, author
from tests.support.topic_io import read_all
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

MALLORY = author("mallory")


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


def is_held(edge: Edge, log: LogKey) -> bool:
    return edge.index.store.height(*log) > 0


def are_done(edge: Edge, sessions: int) -> bool:
    return edge.driver.metrics.sessions_done == sessions


async def test_a_peer_has_receipts_of_held_logs_alone_over_connections_and_restarts(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    held: dict[LogKey, int] = {}
    first = 0
    for _ in range(2):
        async with (
            running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge,
            reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        ):
            assert edge.address is not None
            log = await write_document(a, 1)
            newest = log[0].log
            held[newest] = 2
            await a.sync(edge.address)
            await until(partial(is_held, edge, newest))
            for _ in range(2):
                done = edge.driver.metrics.sessions_done
                async with hostile(edge.address, MALLORY) as remote:
                    for session_id in range(2):
                        first += 1_000
                        named = (*unknown_heights(1_000, first=first), *((*key, 1) for key in held))
                        await remote.say(
                            Announce(1, first, (SCHEMA,)),
                            SyncRequest(session_id, 0, (SCHEMA,)),
                            Have(session_id, named),
                            SyncDone(session_id, False),
                        )
                    await until(partial(are_done, edge, done + 2))
            await edge.sender.send()
            assert edge.sender.dropped["receipts"] == 0
    receipts = [(key, ReceiptRecord.decode(value)) for key, value in read_all(kafka, "receipts")]
    rows = {row[:2] for key, record in receipts if key == MALLORY.public_key for row in record.log_heights}
    assert rows == set(held)


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
