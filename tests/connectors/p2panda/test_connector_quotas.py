"""Quotas of a connector's index and hostile peers: nobody else notices, and Kafka is not filled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from culm_connectors.p2panda.interest import MAX_SCHEMAS
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.wire.messages import Announce, Have, SyncDone, SyncRequest
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import LogRecord, ReceiptRecord
from culm_topics.records import log_key
from tests.support.connectors.edge import Edge, connector, reference_peer, running, write_document
from tests.support.hostile.attacks import invented_schemas, unknown_heights
from tests.support.hostile.remote import hostile
from tests.support.kafka.topic_io import produce, read_all, read_rejected
from tests.support.p2panda.logs import SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

pytestmark = pytest.mark.kafka


def size(log: Sequence[CheckedOperation]) -> int:
    return sum(operation.size_bytes for operation in log)


def truth(log: Sequence[CheckedOperation]) -> list[tuple[bytes | None, bytes | None]]:
    """What the streaming job would write."""
    return [
        (
            log_key(*operation.log),
            LogRecord(
                operation.entry.seq_num,
                operation.entry_bytes,
                operation.payload_bytes,
                operation.hash,
                operation.schema_id,
            ).encode(),
        )
        for operation in log
    ]


async def test_an_author_over_its_quota_stops_its_own_logs_alone(
    tmp_path: Path, kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    greedy, modest = make_log(author("greedy"), 0, 100), make_log(author("modest"), 0, 5)
    quota = size(greedy[:20])
    async with (
        running(connector(tmp_path / "edge", kafka, max_bytes_per_author=quota)) as edge,
        reference_peer(tmp_path, "a") as a,
    ):
        assert edge.address is not None
        await a.add(pairs([*greedy, *modest]))
        summary = await a.sync(edge.address)
        assert summary.entries_sent == 105
        store = edge.index.store
        await until(lambda: (store.height(*greedy[0].log), store.height(*modest[0].log)) == (20, 5))
        # Whoever brings them is not to blame for as many refusals as there are.
        assert not edge.driver.metrics.closed
        assert edge.driver.metrics.rejects["index.quota_author"] == 1
        written = await write_document(a, 2)
        await a.sync(edge.address)
        await until(lambda: store.height(*written[0].log) == 3)
        await edge.sender.send()
        (refused,) = read_rejected(kafka)
        assert (refused.code, refused.seq_num, refused.brought_by) == ("index.quota_author", 21, a.peer_id)
        assert caplog.text.count("index.quota_author") == 1
        # What all others agreed on is taken.
        produce(kafka, "logs", truth(greedy))
        await until(lambda: store.height(*greedy[0].log) == 100)
        assert store.usage(author("greedy").public_key, a.peer_id)[0] == size(greedy)


async def test_a_peer_over_its_quota_is_refused_what_another_may_bring(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    log = make_log(author("writer"), 0, 40)
    settings = {"max_bytes_per_peer": size(log[:30])}
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b") as b:
        await a.add(pairs(log))
        async with running(connector(tmp_path / "edge", kafka, **settings)) as edge:
            assert edge.address is not None
            await a.sync(edge.address)
            await until(lambda: edge.index.store.height(*log[0].log) == 30)
        # The count outlives the process.
        async with running(connector(tmp_path / "edge", kafka, **settings)) as edge:
            assert edge.address is not None
            await a.sync(edge.address)
            assert edge.index.store.height(*log[0].log) == 30
            assert edge.driver.metrics.rejects["index.quota_peer"] == 1
            await b.add(pairs(log))
            written = await write_document(b, 2)
            await b.sync(edge.address)
            store = edge.index.store
            await until(lambda: (store.height(*log[0].log), store.height(*written[0].log)) == (40, 3))
            # It goes on to be brought up to date itself.
            await a.sync(edge.address)
            assert a.store.height(*written[0].log) == 3
            assert not edge.driver.metrics.closed


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
    heights: dict[LogKey, int] = {}
    first = 0
    for _ in range(2):
        async with (
            running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge,
            reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        ):
            assert edge.address is not None
            log = await write_document(a, 1)
            newest = log[0].log
            heights[newest] = 2
            await a.sync(edge.address)
            await until(partial(is_held, edge, newest))
            for _ in range(2):
                done = edge.driver.metrics.sessions_done
                async with hostile(edge.address, MALLORY) as remote:
                    for session_id in range(2):
                        first += 1_000
                        named = (*unknown_heights(1_000, first=first), *((*key, 1) for key in heights))
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
    assert rows == set(heights)


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
            schema_ids = {
                name
                for message in remote.heard
                if isinstance(message, Announce)
                for name in message.schema_ids
            }
            assert SCHEMA in schema_ids
            assert secret not in schema_ids
