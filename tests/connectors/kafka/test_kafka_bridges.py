"""Producing and reading from an event loop, against a real Kafka."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from confluent_kafka.cimpl import NewPartitions

from culm_connectors.kafka import (
    BatchProducer,
    ConsumeFailed,
    OffsetLost,
    PartitionsAdded,
    ProduceFailed,
    ProducerLimits,
    ProducerRecord,
    TopicReader,
    TopicRecreated,
    ask_origin,
    watch_origin,
)
from culm_models.errors import CulmError
from culm_topics.kafka.clients import KafkaSettings, admin, consumer, producer
from tests.support.edge import topics
from tests.support.waiting import while_working

pytestmark = pytest.mark.kafka


def reader(
    kafka: KafkaSettings, offsets: dict[tuple[str, int], int], *, skip_lost: bool = False
) -> TopicReader:
    def make() -> object:
        return consumer(kafka, group_id="test", defaults={"enable.partition.eof": "true"})

    return TopicReader(make, kafka.topic("entries"), offsets, skip_lost=skip_lost)  # type: ignore[arg-type]


def records(count: int, size: int = 10) -> list[ProducerRecord]:
    return [
        ProducerRecord(f"key {number % 7}".encode(), f"{number}".encode().ljust(size))
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
        expected.setdefault(record.key, []).append(record.value or b"")
    assert read == expected


async def test_what_is_in_flight_is_bounded(kafka: KafkaSettings) -> None:
    limits = ProducerLimits(max_records=2_000, max_bytes=1_000_000)
    async with BatchProducer(producer(kafka), limits) as out:
        most = (0, 0)
        sending = [
            asyncio.create_task(out.send(kafka.topic("entries"), records(3_000, 300))) for _ in range(4)
        ]
        while not all(task.done() for task in sending):
            most = max(most, out.in_flight)
            await asyncio.sleep(0)
        await asyncio.gather(*sending)
        assert 0 < most[0] <= 2_000
        assert most[1] <= 1_000_000
        assert out.produced.total() == 12_000


async def test_a_record_that_kafka_refuses_is_an_error(kafka: KafkaSettings) -> None:
    async with BatchProducer(producer(kafka)) as out:
        with pytest.raises(ProduceFailed):
            await out.send(kafka.topic("entries"), [*records(3), ProducerRecord(b"", bytes(5 * 1024**2))])
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
        with pytest.raises(TopicRecreated):
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
