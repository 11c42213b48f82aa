"""Quotas of a connector's index: what is over one is refused, and nobody else notices."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from culm_models.p2panda.operations.operation import CheckedOperation
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key
from tests.support.edge import connector, reference_peer, running, write_document
from tests.support.logs import author, make_log, pairs
from tests.support.topic_io import produce, read_rejected
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


def size(log: Sequence[CheckedOperation]) -> int:
    return sum(one.size_bytes for one in log)


def truth(log: Sequence[CheckedOperation]) -> list[tuple[bytes | None, bytes | None]]:
    """What the streaming job would write."""
    return [
        (
            log_key(*one.log),
            LogRecord(
                one.entry.seq_num, one.entry_bytes, one.payload_bytes, one.hash, one.schema_id
            ).encode(),
        )
        for one in log
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
