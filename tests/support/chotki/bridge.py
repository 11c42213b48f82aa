"""The job `chotki` without Spark: between real topics, where a micro-batch is a call, and fed on a broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from culm_streaming.chotki.output_records import OutputStage, OutputTopic, StagedRecord
from culm_streaming.chotki.rows import TOPICS, InputTopic
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.kafka.topic_io import read_records, write_records

PARTITIONS = 3
NAMES = (*TOPICS.values(), *OutputTopic, "chotki.sources", "chotki.sessions")
_BY_KEY = -1


def chotki_settings(
    bootstrap: str, prefix: str, topic_config: dict[str, dict[str, str]] | None = None
) -> KafkaSettings:
    """Settings whose topics of Chotki exist."""
    settings = KafkaSettings(
        bootstrap=bootstrap, prefix=prefix, partitions=PARTITIONS, topic_config=topic_config or {}
    )
    admin.create(settings, [spec(name) for name in NAMES])
    return settings


class JobOnKafka:
    """Takes what is new on its input topics and writes what the job makes of it."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.job = ChotkiJob(ChotkiTopics(PARTITIONS))
        self._settings = settings

    def run(self) -> int:
        """One micro-batch; returns its epoch, 0 when there is nothing to do."""
        for source in InputTopic:
            by_partition = defaultdict(list)
            for partition, key, value in read_records(self._settings, TOPICS[source]):
                by_partition[partition].append((key or b"", value or b""))
            for partition, records in by_partition.items():
                self.job.topics.records[source, partition] = records
        written = self.job.run()
        for stage in OutputStage:
            for topic in OutputTopic:
                outgoing = [record for record in written if record.stage is stage and record.topic is topic]
                places = [_BY_KEY if record.partition is None else record.partition for record in outgoing]
                rows = (
                    (partition, record.key, record.value)
                    for partition, record in zip(places, outgoing, strict=True)
                )
                write_records(self._settings, topic, rows)
        return self.job.marks[0].epoch if written else 0


_SOURCES = {name: source for source, name in TOPICS.items()}


class ChotkiBridge:
    """Runs the job over what its input topics hold now, one micro-batch a turn."""

    def __init__(self, kafka: KafkaSettings, partitions: int) -> None:
        self.job = ChotkiJob(ChotkiTopics(partitions))
        self._kafka = kafka
        self._consumer = clients.consumer(kafka, group_id=f"{kafka.prefix}bridge", start="earliest")
        self._consumer.subscribe([kafka.topic(name) for name in _SOURCES])
        self._producer = clients.producer(kafka)

    def turn(self, timeout_s: float) -> list[StagedRecord]:
        """Run one micro-batch if there is anything, and return what it has produced.

        The job's `state` is as before until its `take` is called with these records. This method blocks, so
        it runs in a thread, while a test reads `state` in the event loop.
        """
        messages: list[Any] = self._consumer.consume(10_000, timeout=timeout_s)
        # An error is a broker that is away; the consumer waits for it.
        arrived = [message for message in messages if message.error() is None]
        for message in arrived:
            source = _SOURCES[message.topic().removeprefix(self._kafka.prefix)]
            source_partition = (source, message.partition())
            records = self.job.topics.records[source_partition]
            if message.offset() >= len(records):
                records.append((message.key(), message.value()))
        if not arrived:
            return []
        output = self.job.step(None, batch_ms=0)
        stage = None
        for record in output:
            if record.stage != stage:
                assert self._producer.flush(30) == 0
                stage = record.stage
            partition = -1 if record.partition is None else record.partition
            topic = self._kafka.topic(record.topic)
            self._producer.produce(topic, record.value, record.key, partition)
        assert self._producer.flush(30) == 0
        return output

    def close(self) -> None:
        self._consumer.close()


@contextlib.asynccontextmanager
async def bridging(kafka: KafkaSettings, partitions: int) -> AsyncIterator[ChotkiBridge]:
    """Epochs follow what edges produce, while the context lasts."""
    bridge = ChotkiBridge(kafka, partitions)
    stopping = False

    async def run() -> None:
        while not stopping:
            bridge.job.take(await asyncio.to_thread(bridge.turn, 0.1))
        await asyncio.to_thread(bridge.close)

    running = asyncio.create_task(run())
    try:
        yield bridge
    finally:
        stopping = True
        await running
