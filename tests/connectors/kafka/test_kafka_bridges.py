"""Producing and reading from an event loop, against a real Kafka that dies and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewPartitions

from culm_connectors.connector import Connector
from culm_connectors.kafka import (
    BatchProducer,
    ConsumeFailed,
    OffsetLost,
    PartitionsAdded,
    ProduceFailed,
    ProducerLimits,
    ProducerRecord,
    RecreatedWhileRead,
    TopicReader,
    ask_origin,
    watch_origin,
)
from culm_infra.stack import Stack
from culm_models.errors import CulmError
from culm_topics.kafka.clients import KafkaSettings, admin, consumer, producer
from tests.support.connectors.edge import connector, reference_peer, running, topics, write_document
from tests.support.p2panda.logs import SCHEMA
from tests.support.process.waiting import until, while_working

pytestmark = pytest.mark.kafka


def reader(
    kafka: KafkaSettings, offsets: dict[tuple[str, int], int], *, skip_lost: bool = False
) -> TopicReader:
    def make() -> object:
        return consumer(kafka, group_id="test", defaults={"enable.partition.eof": "true"})

    return TopicReader(make, kafka.topic("entries"), offsets, skip_lost=skip_lost)  # type: ignore[arg-type]


def records(count: int, size: int = 10) -> list[ProducerRecord]:
    return [
        ProducerRecord(key=f"key {number % 7}".encode(), value=f"{number}".encode().ljust(size))
        for number in range(count)
    ]


async def test_what_was_acknowledged_is_read_in_order_of_its_key(kafka: KafkaSettings) -> None:
    sent = records(5_000)
    async with BatchProducer(producer(kafka)) as out:
        await out.send(kafka.topic("entries"), sent)
        assert out.in_flight == (0, 0)
    read: dict[bytes, list[bytes]] = {}
    async with reader(kafka, {}) as source:
        async for batch in source.read_to_end():
            for message in batch.messages:
                read.setdefault(message.key() or b"", []).append(message.value() or b"")
        assert source.remaining() == 0
    expected: dict[bytes, list[bytes]] = {}
    for record in sent:
        expected.setdefault(record["key"], []).append(record["value"] or b"")
    assert read == expected


async def test_what_is_in_flight_is_bounded(kafka: KafkaSettings) -> None:
    limits = ProducerLimits(max_records=2_000, max_bytes=1_000_000)
    async with BatchProducer(producer(kafka), limits) as out:
        peak = (0, 0)
        sending = [
            asyncio.create_task(out.send(kafka.topic("entries"), records(3_000, 300))) for _ in range(4)
        ]
        while not all(task.done() for task in sending):
            peak = max(peak, out.in_flight)
            await asyncio.sleep(0)
        await asyncio.gather(*sending)
        assert 0 < peak[0] <= 2_000
        assert peak[1] <= 1_000_000
        assert out.produced.total() == 12_000


async def test_a_record_that_kafka_refuses_is_an_error(kafka: KafkaSettings) -> None:
    async with BatchProducer(producer(kafka)) as out:
        with pytest.raises(ProduceFailed):
            await out.send(
                kafka.topic("entries"), [*records(3), ProducerRecord(key=b"", value=bytes(5 * 1024**2))]
            )
        await out.send(kafka.topic("entries"), records(3))
        assert out.in_flight == (0, 0)


async def test_reading_goes_on_at_the_stored_offsets(kafka: KafkaSettings) -> None:
    async with BatchProducer(producer(kafka)) as out:
        await out.send(kafka.topic("entries"), records(100))
        async with reader(kafka, {}) as source:
            async for _ in source.read_to_end():
                pass
            offsets = dict(source.positions)
        await out.send(kafka.topic("entries"), records(30))
    async with reader(kafka, offsets) as source:
        count = 0
        async for batch in source.read_to_end():
            count += len(batch.messages)
    assert count == 30


async def test_an_offset_out_of_range_is_loud(kafka: KafkaSettings) -> None:
    topic = kafka.topic("entries")
    async with BatchProducer(producer(kafka)) as out:
        await out.send(topic, records(10))
    with pytest.raises(OffsetLost):
        async with reader(kafka, {(topic, 0): 10_000}):
            pass
    with pytest.raises(OffsetLost):
        async with reader(kafka, {(topic, 0): 10_000}, skip_lost=True):
            pass


async def test_a_topic_that_does_not_exist_is_an_error(kafka: KafkaSettings) -> None:
    missing = TopicReader(lambda: consumer(kafka, group_id="test"), "no.such.topic", {})
    with pytest.raises(ConsumeFailed):
        async with missing:
            pass
    with pytest.raises(ConsumeFailed):
        await asyncio.to_thread(ask_origin, admin(kafka), ["no.such.topic"])


async def test_a_reader_that_nobody_reads_can_be_left(kafka: KafkaSettings) -> None:
    async with BatchProducer(producer(kafka)) as out:
        await out.send(kafka.topic("entries"), records(20_000))
    async with reader(kafka, {}) as source:
        await source.get()


async def test_a_topic_created_anew_is_noticed(kafka: KafkaSettings) -> None:
    administration, topic = admin(kafka), kafka.topic("entries")
    known = await asyncio.to_thread(ask_origin, administration, [topic])
    for future in administration.delete_topics([topic]).values():
        await asyncio.to_thread(future.result, 20)
    watching = asyncio.create_task(watch_origin(administration, known, interval_s=0.2))
    async with while_working():
        # The broker may still show the old topic for a moment: create until a new one is seen.
        while not watching.done():
            with contextlib.suppress(CulmError):
                await asyncio.to_thread(topics, kafka.bootstrap, kafka.prefix)
            await asyncio.sleep(0.3)
        with pytest.raises(RecreatedWhileRead):
            await watching


async def test_partitions_that_are_added_are_noticed(kafka: KafkaSettings) -> None:
    administration, topic = admin(kafka), kafka.topic("entries")
    known = await asyncio.to_thread(ask_origin, administration, [topic])
    watching = asyncio.create_task(watch_origin(administration, known, interval_s=0.05))
    more = NewPartitions(topic, known.partition_counts[topic] + 1)
    for future in administration.create_partitions([more]).values():
        await asyncio.to_thread(future.result, 20)
    with pytest.raises(PartitionsAdded, match=topic) as raised:
        await watching
    assert raised.value.passes


def scrape(edge: Connector) -> dict[str, float]:
    """A value of every metric that has one, by name."""
    return {sample.name: sample.value for metric in edge.collector.collect() for sample in metric.samples}


async def test_entries_wait_for_a_broker_that_is_away_and_probes_say_so(
    tmp_path: Path, topic_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "culm_connectors")
    stack = Stack(tmp_path / "stack")
    try:
        kafka = topics(await asyncio.to_thread(stack.up, quick_start=True), topic_prefix)
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
            before = await write_document(a, 5)
            await b.wait_until_holding({before[0].log: 6}, 30)
            await asyncio.to_thread(stack.kill)
            meanwhile = await write_document(a, 30)
            await until(lambda: first.driver.metrics.staged > 0)
            assert first.index.store.height(*meanwhile[0].log) == 0
            assert first.is_ready
            await until(lambda: first.health.why_not_ready())
            (reason,) = first.health.why_not_ready()
            assert reason.startswith("Kafka has not answered for ")
            scraped = scrape(first)
            assert scraped["culm_kafka_up"] == scraped["culm_connector_ready"] == 0
            assert "culm_topic_lag_records" not in scraped, "it is unknown, not zero"
            progress_s = scraped["culm_last_progress_timestamp_seconds"]
            await asyncio.to_thread(stack.up, quick_start=True)
            await b.wait_until_holding({meanwhile[0].log: 31}, 60)
            after = await write_document(b, 5)
            await a.wait_until_holding({after[0].log: 6}, 60)
            await until(lambda: not first.health.why_not_ready())
            scraped = scrape(first)
            assert scraped["culm_kafka_up"] == scraped["culm_connector_ready"] == 1
            assert "culm_topic_lag_records" in scraped
            assert scraped["culm_last_progress_timestamp_seconds"] > progress_s
            lines = [record for record in caplog.records if record.name.startswith("culm_connectors.kafka.")]
            begun = sum(record.msg == "Kafka does not answer: %s" for record in lines)
            ended = sum(record.msg.startswith("Kafka answers again") for record in lines)
            assert 1 <= ended <= begun <= ended + 2, "once a connector, until it answers again"
            errors = [
                record.created for record in lines if record.name == "culm_connectors.kafka.topic_readers"
            ]
            assert all(later - earlier >= 1 for earlier, later in pairwise(errors))
    finally:
        await asyncio.to_thread(stack.down)
