"""A connector under the truth: what `logs` fills and corrects in its index, and what former programs left."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from culm_connectors.local_store.lmdb_file import DATA_FILE
from culm_connectors.logs.warm_start import repair
from culm_connectors.sds.kafka_backbone import INDEX_FILE
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES
from culm_models.testing.p2panda.logs import LogWriter
from culm_topics.catalogue.topics import spec
from culm_topics.kafka.admin import create, list_topics
from culm_topics.kafka.client_errors import CLIENT_LOG
from culm_topics.kafka.clients import KafkaSettings, admin
from culm_topics.records import RejectedRecord
from culm_topics.sds.index import SdsIndex
from tests.support.connectors.edge import connector, reference_peer, running, topics
from tests.support.freeze import connector as kept
from tests.support.freeze import frozen
from tests.support.freeze.topics import write
from tests.support.kafka.broker import Broker
from tests.support.kafka.topic_io import read_topic, write_truth
from tests.support.p2panda.logs import SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until
from tests.support.sds.topics import store, write_index

pytestmark = pytest.mark.kafka


async def test_the_truth_fills_heals_and_corrects(tmp_path: Path, kafka: KafkaSettings) -> None:
    log = make_log(author("writer"), 0, 8)
    fork = make_log(author("writer"), 0, 3, text="other", after=log[:4])
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge,
        reference_peer(tmp_path, "a") as a,
    ):
        assert edge.address is not None
        await a.add(pairs(log[:4] + fork))
        a.dial(edge.address)
        store = edge.index.store
        await until(lambda: store.height(*log[0].log) == 7)
        write_truth(kafka, log)
        await until(lambda: store.height(*log[0].log) == 8)
        assert list(store.entries(*log[0].log, 1, 99)) == pairs(log)
        await until(lambda: edge.followers.logs.corrected == 1)
        other = make_log(author("writer"), 1, 5)
        write_truth(kafka, other, other)
        await until(lambda: store.height(*other[0].log) == 5)
        await a.wait_until_holding({other[0].log: 5}, 20)


async def test_a_restarted_connector_goes_on_from_its_offsets(tmp_path: Path, kafka: KafkaSettings) -> None:
    log = make_log(author("writer"), 0, 30)
    write_truth(kafka, log[:10])
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        assert edge.index.store.height(*log[0].log) == 10
    write_truth(kafka, log[10:])
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        assert edge.index.store.height(*log[0].log) == 30
        assert edge.followers.logs.taken == 20


async def test_a_damaged_index_is_rebuilt_from_logs(tmp_path: Path, kafka: KafkaSettings) -> None:
    log = make_log(author("writer"), 0, 30)
    write_truth(kafka, log)
    async with running(connector(tmp_path / "edge", kafka)) as edge:
        edge.interest.want(author("anna").public_key, [SCHEMA], 0.0)
        edge.interest.changed.set()
        await until(lambda: edge.index.store.height(*log[0].log) == 30)
    data = tmp_path / "edge" / "index" / DATA_FILE
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 3])
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a", schemas=[SCHEMA], live_mode=False) as a,
    ):
        assert edge.address is not None
        await a.sync(edge.address)
        assert list(a.store.entries(*log[0].log, 1, 99)) == pairs(log)


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_gap_in_logs_sets_that_log_aside_until_it_is_whole_and_costs_no_other(
    tmp_path: Path, kafka: KafkaSettings, fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "_INTERVAL_S", 0.0)
    log, other = make_log(author("writer"), 0, 9), make_log(author("other"), 0, 4)
    write_truth(kafka, log[:3], other[:2])
    if not fresh:
        async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))):
            pass
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        height, aside = edge.index.store.height, edge.followers.logs.gaps
        write_truth(kafka, log[5:7], other[2:])
        await until(lambda: height(*other[0].log) == 4 and aside.logs_set_aside == 1)
        assert height(*log[0].log) == 3
        messages = await read_topic(kafka, "rejected", lambda messages: bool(messages))
        assert [RejectedRecord.decode(message.value()).code for message in messages] == ["index.gap"]
        # What was passed over behind the gap is read again once the missing entries have come.
        write_truth(kafka, log[3:5])
        await until(lambda: height(*log[0].log) == 7 and aside.logs_set_aside == 0)
        write_truth(kafka, log[7:])
        await until(lambda: height(*log[0].log) == 9)


async def test_an_oversized_entry_of_earlier_versions_holds_up_its_own_log_only(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    writer = LogWriter(author("large"), 0, SCHEMA)
    writer.append()
    writer.append({"data": bytes(MAX_OPERATION_BYTES)})
    writer.append()
    log = make_log(author("writer"), 0, 4)
    write_truth(kafka, writer.entries, log)
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge,
        reference_peer(tmp_path, "a") as a,
        reference_peer(tmp_path, "b") as b,
    ):
        assert edge.address is not None
        await until(lambda: edge.index.store.height(*log[0].log) == 4)
        for peer in (a, b):
            await peer.sync(edge.address)
            assert peer.heights() == {log[0].log: 4, writer.entries[0].log: 1}
            assert peer.driver.metrics.rejects.total() == 0
        await until(lambda: edge.driver.metrics.withheld_logs == 2)
        messages = await read_topic(kafka, "rejected", lambda messages: bool(messages))
        rejected = RejectedRecord.decode(messages[0].value())
        assert (rejected.code, rejected.entry) == (
            "p2panda.operation.too_large",
            writer.entries[1].entry_bytes,
        )
        assert len(messages) == 1, "reported once, however many lack it"


async def test_an_index_of_a_topic_made_anew_and_grown_past_it_is_dropped_before_anything_is_read(
    tmp_path: Path, kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    former, now = make_log(author("former"), 0, 3), make_log(author("now"), 0, 9)
    write_truth(kafka, former)
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        assert edge.index.store.height(*former[0].log) == 3
    client = admin(kafka)
    for deleted in client.delete_topics([kafka.topic("logs")]).values():
        deleted.result(30)
    await until(lambda: not list_topics(kafka, [spec("logs")])[0].exists)
    create(kafka, [spec("logs")])
    write_truth(kafka, now)
    with caplog.at_level("WARNING"):
        async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
            # All of the new topic, also what stands before the offsets of the old one, and nothing else.
            await until(lambda: edge.index.store.height(*now[0].log) == 9)
            assert edge.index.store.height(*former[0].log) == 0
    assert "index.foreign" in caplog.text


async def test_a_connector_is_who_it_was_and_reads_on_from_where_it_stood(
    kafka_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = kept.settings(kafka_broker)
    home = kept.restore(kafka, tmp_path)
    write(kafka, kept.told(kept.LOG[kept.HELD :]))
    with caplog.at_level(logging.WARNING):
        async with running(connector(home, kafka)) as edge:
            assert edge.key_pair.public_key == author("edge").public_key
            index = edge.index.store
            await until(lambda: index.height(*kept.LOG[0].log) == len(kept.LOG))
            assert index.counts() == (2, len(kept.LOG) + kept.PUBLISHED)
            # What is in the index was not read again.
            assert edge.followers.logs.taken == len(kept.LOG) - kept.HELD
            carol = author("carol").public_key
            of_author, of_peer = index.usage(carol, carol)
            assert of_author == of_peer > 0
    # What a Kafka client retries by itself is no word of the connector's.
    assert [record for record in caplog.records if record.name != CLIENT_LOG.name] == []


def test_the_index_of_the_store_is_followed_from_where_it_stood(kafka_broker: Broker, tmp_path: Path) -> None:
    kafka = kept.settings(kafka_broker)
    home = kept.restore(kafka, tmp_path)
    write_index(kafka, "room", store(kafka, "room", kept.MESSAGES[kept.STORED :]))
    with SdsIndex(kafka, home / INDEX_FILE) as index:
        assert index.catch_up() == len(kept.MESSAGES) - kept.STORED
        message_ids = [message.message_id for message in kept.MESSAGES]
        assert len(index.find("room", message_ids)) == len(message_ids)


async def test_the_metrics_are_the_accepted_ones(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    metrics = await kept.metrics_of(tmp_path, topics(kafka_bootstrap, topic_prefix))
    frozen.assert_list(kept.METRICS, metrics, accept=kept.METRICS)
