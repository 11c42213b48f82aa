"""Connectors between real peers and a real Kafka."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from confluent_kafka import Message

from culm_connectors.p2panda import announcements
from culm_connectors.transport import ConnectError
from culm_models.p2panda.wire.codec import decode, encode
from culm_models.p2panda.wire.messages import Announce, split_offer
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import EntryRecord, ReceiptRecord
from culm_topics.records import RejectedRecord, log_key
from tests.support.connectors.edge import connector, reference_peer, running, write_document
from tests.support.connectors.http import get
from tests.support.kafka.topic_io import read_topic, write_truth
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

pytestmark = pytest.mark.kafka


async def test_what_a_peer_brings_is_on_entries_and_counts_for_it(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a") as a,
    ):
        assert edge.address is not None
        log = await write_document(a, 6)
        summary = await a.sync(edge.address)
        assert summary.entries_sent == 7
        messages = await read_topic(kafka, "entries", lambda messages: len(messages) >= 7)
        records = [EntryRecord.decode(message.value()) for message in messages]
        assert [(record.entry, record.operation) for record in records] == pairs(log)
        assert {record.brought_by for record in records} == {a.peer_id}
        assert {record.connector for record in records} == {edge._connector_id}
        assert {message.key() for message in messages} == {log_key(*log[0].log)}
        (announced,) = await read_topic(kafka, "announcements", lambda messages: bool(messages))
        assert announced.key() == a.peer_id
        announce = decode(announced.value() or b"")
        assert isinstance(announce, Announce)
        schema_ids, offer = split_offer(announce.schema_ids)
        assert schema_ids == (SCHEMA,)
        assert offer is not None
        assert offer.modes == {0, 1}

        def has_receipt(messages: list[Message]) -> bool:
            rows = [row for message in messages for row in ReceiptRecord.decode(message.value()).log_heights]
            return (*log[0].log, 7) in rows

        receipts = await read_topic(kafka, "receipts", has_receipt)
        assert {message.key() for message in receipts} == {a.peer_id}


async def test_live_entries_go_from_one_edge_to_the_other(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with (
        running(connector(tmp_path / "edge-1", kafka, schemas=(SCHEMA,))) as first,
        running(connector(tmp_path / "edge-2", kafka, schemas=(SCHEMA,))) as second,
        reference_peer(tmp_path, "a") as a,
        reference_peer(tmp_path, "b") as b,
    ):
        assert first.address is not None
        assert second.address is not None
        a.dial(first.address)
        b.dial(second.address)
        # What is stored while a session compares the two ends may be sent twice, which is no fault.
        await until(lambda: all(edge.driver.metrics.sessions_live for edge in (first, second)))
        for writer, reader in ((a, b), (b, a)):
            log = await write_document(writer, 20)
            await reader.wait_until_holding({log[0].log: 21}, 30)
            assert list(reader.store.entries(*log[0].log, 1, 99)) == pairs(log)
        assert second.followers.entries.taken == 21
        assert first.driver.metrics.duplicates == 0


async def test_an_edge_becomes_interested_in_what_its_peers_announce(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    log = make_log(author("writer"), 0, 12)
    write_truth(kafka, log, make_log(author("writer"), 1, 3, schema_id=OTHER_SCHEMA))
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a", schemas=[SCHEMA], live_mode=False) as a,
    ):
        assert edge.address is not None
        assert not edge.interest.served
        summary = await a.sync(edge.address)
        assert summary.entries_received == 12
        assert edge.interest.served == (SCHEMA,)
        assert edge.index.store.counts() == (1, 12)


async def test_an_interest_after_another_does_not_wait_for_news(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", schemas=[OTHER_SCHEMA]) as b,
    ):
        assert edge.address is not None
        a.dial(edge.address)
        await until(lambda: set(edge.interest.served) == {SCHEMA})
        b.dial(edge.address)
        await until(lambda: set(edge.interest.served) == {SCHEMA, OTHER_SCHEMA})


async def test_a_fork_is_left_to_the_truth_path(tmp_path: Path, kafka: KafkaSettings) -> None:
    log = make_log(author("writer"), 0, 4)
    fork = make_log(author("writer"), 0, 1, text="other", after=log[:2])
    write_truth(kafka, log[:3])
    async with (
        running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge,
        reference_peer(tmp_path, "a") as a,
    ):
        assert edge.address is not None
        await a.add(pairs(log[:2]))
        a.dial(edge.address)
        await a.wait_until_holding({log[0].log: 3}, 20)
        # The author's key is at work elsewhere too: a remote brings another entry 3.
        async with reference_peer(tmp_path, "b") as b:
            await b.add(pairs(log[:2] + fork + make_log(author("writer"), 0, 1, after=log[:2] + fork)))
            b.dial(edge.address)
            await until(lambda: edge.driver.metrics.rejects.total() >= 1)
        messages = await read_topic(kafka, "rejected", lambda messages: bool(messages))
        rejected = RejectedRecord.decode(messages[0].value())
        assert rejected.brought_by == b.peer_id
        assert messages[0].key() == log_key(*log[0].log)
        assert list(edge.index.store.entries(*log[0].log, 1, 9)) == pairs(log[:3])


async def test_an_older_announcement_never_wins(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
    ):
        assert edge.address is not None
        a.dial(edge.address)
        newest = await read_topic(kafka, "announcements", lambda messages: bool(messages))
        late = encode(Announce(1, 5, (OTHER_SCHEMA,)))
        writer = producer(kafka)
        writer.produce(kafka.topic("announcements"), late, a.peer_id)
        assert writer.flush(20) == 0
        again = await read_topic(kafka, "announcements", lambda messages: len(messages) >= 3)
        assert [message.value() for message in again[:3]] == [newest[0].value(), late, newest[0].value()]


async def test_the_allow_list_is_in_force_without_a_restart(tmp_path: Path, kafka: KafkaSettings) -> None:
    path = tmp_path / "allowed.json"
    a_id, b_id = author("a").public_key.hex(), author("b").public_key.hex()
    path.write_text(json.dumps({"peers": {a_id: ["*"]}}))
    edge = connector(tmp_path / "edge", kafka, schemas=(SCHEMA,), allow_list=path, reload_interval_s=0.05)
    async with (
        running(edge),
        reference_peer(tmp_path, "a") as a,
        reference_peer(tmp_path, "b") as b,
    ):
        assert edge.address is not None
        with pytest.raises(ConnectError):
            await b.sync(edge.address)
        a.dial(edge.address)
        await until(lambda: a.peer_id in edge.driver.links.open)
        path.write_text("nonsense")
        edge.reload()
        await asyncio.sleep(0)
        assert a.peer_id in edge.driver.links.open
        path.write_text(json.dumps({"peers": {b_id: [SCHEMA]}}))
        await until(lambda: a.peer_id not in edge.driver.links.open)
        b.dial(edge.address)
        await until(lambda: b.peer_id in edge.driver.links.open)


async def test_the_allow_list_withholds_schemas(tmp_path: Path, kafka: KafkaSettings) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(f'[peers]\n{author("a").public_key.hex()} = ["{SCHEMA}"]\n')
    log, withheld = make_log(author("writer"), 0, 3), make_log(author("writer"), 1, 3, schema_id=OTHER_SCHEMA)
    write_truth(kafka, log, withheld)
    edge = connector(tmp_path / "edge", kafka, schemas=(SCHEMA, OTHER_SCHEMA), allow_list=path)
    async with running(edge), reference_peer(tmp_path, "a", schemas=[SCHEMA], live_mode=False) as a:
        assert edge.address is not None
        await a.sync(edge.address)
        assert a.heights() == {log[0].log: 3}
    async with (
        running(edge := connector(tmp_path / "edge", kafka, schemas=(SCHEMA, OTHER_SCHEMA), allow_list=path)),
        reference_peer(tmp_path, "a", schemas=[OTHER_SCHEMA], live_mode=False) as a,
    ):
        assert edge.address is not None
        a.dial(edge.address)
        await until(lambda: edge.driver.metrics.ignored["connector.access"] >= 1)
        assert a.heights([OTHER_SCHEMA]) == {}


async def test_metrics_and_health_are_served(tmp_path: Path, kafka: KafkaSettings) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka, metrics_port=0)) as edge,
        reference_peer(tmp_path, "a") as a,
    ):
        port = edge.metrics_port
        assert edge.address is not None
        assert port is not None
        await write_document(a, 2)
        await a.sync(edge.address)
        # The peer knows that its entries have arrived, not that Kafka has acknowledged them.
        await until(lambda: edge.index.store.counts()[1] == 3)
        await until(lambda: edge._running is not None and edge._running.kafka.ends is not None)
        assert await asyncio.to_thread(get, port, "/readyz") == (200, "ready\n")
        assert await asyncio.to_thread(get, port, "/livez") == (200, "ok\n")
        assert (await asyncio.to_thread(get, port, "/etc/passwd"))[0] == 404
        status, text = await asyncio.to_thread(get, port, "/metrics")
        assert status == 200
        assert "culm_p2panda_entries_accepted_total 3.0" in text
        assert "culm_index_entries 3.0" in text
        assert 'culm_p2panda_sessions_total{mode="ranges"} 1.0' in text
        for name in ("culm_build_info{version=", "process_resident_memory_bytes", "culm_kafka_up 1.0"):
            assert name in text
        assert "culm_produce_latency_seconds_bucket" in text
        assert "culm_last_progress_timestamp_seconds" in text
        assert "job=" not in text, "this label is Prometheus' own"
        edge._state = "catching up"
        assert await asyncio.to_thread(get, port, "/readyz") == (503, "catching up\n")
        assert "culm_connector_ready 0.0" in (await asyncio.to_thread(get, port, "/metrics"))[1]
        edge._state = None
        edge.health._beat_s -= 3600
        status, text = await asyncio.to_thread(get, port, "/livez")
        assert status == 503 and text.startswith("the event loop has not run for 36")


async def test_what_is_no_record_on_entries_is_reported_and_passed_over(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    log = make_log(author("writer"), 0, 2)
    bad_signature = log[0].entry_bytes[:-1] + bytes([log[0].entry_bytes[-1] ^ 1])
    async with running(connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))) as edge:
        writer = producer(kafka)
        values = [b"garbage"]
        for entry, operation in [(bad_signature, log[0].payload_bytes), *pairs(log)]:
            record = EntryRecord(entry, operation, SCHEMA, bytes(32), 0, b"elsewhere")
            values.append(record.encode())
        for value in values:
            writer.produce(kafka.topic("entries"), value, log_key(*log[0].log))
        assert writer.flush(20) == 0
        await until(lambda: edge.index.store.height(*log[0].log) == 2)
        messages = await read_topic(kafka, "rejected", lambda messages: len(messages) >= 2)
        codes = [RejectedRecord.decode(message.value()).code for message in messages]
        assert codes == ["topics.record", "bamboo.signature"]


async def test_the_announcement_of_a_peer_that_is_gone_for_long_is_removed_by_whoever_reads_it(
    tmp_path: Path, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = producer(kafka)
    writer.produce(kafka.topic("announcements"), encode(Announce(1, 1, (SCHEMA,))), b"g" * 32)
    assert writer.flush(20) == 0
    monkeypatch.setattr(announcements, "FORGOTTEN_MS", 0)
    async with running(connector(tmp_path / "edge", kafka)):
        records = await read_topic(kafka, "announcements", lambda records: len(records) >= 2)
    assert [(record.key(), record.value() is None) for record in records] == [
        (b"g" * 32, False),
        (b"g" * 32, True),
    ]
