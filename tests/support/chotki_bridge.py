"""The job `chotki` on a real broker without Spark: its steps, fed by a consumer and written by a producer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from culm_streaming.chotki.rows import TOPICS
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki_job import ChotkiJob, ChotkiTopics

_SOURCES = {name: source for source, name in TOPICS.items()}


class ChotkiBridge:
    """Takes what is there now, and writes its epoch. For one task at a time."""

    def __init__(self, kafka: KafkaSettings, partitions: int) -> None:
        self.job = ChotkiJob(ChotkiTopics(partitions))
        self._kafka = kafka
        self._consumer = clients.consumer(kafka, group_id=f"{kafka.prefix}bridge", start="earliest")
        self._consumer.subscribe([kafka.topic(name) for name in _SOURCES])
        self._producer = clients.producer(kafka)

    def turn(self, timeout_s: float) -> bool:
        """One micro-batch, if there is anything; whether there was."""
        taken: list[Any] = self._consumer.consume(10_000, timeout=timeout_s)
        # A broker that is away is waited for.
        found = [message for message in taken if message.error() is None]
        for message in found:
            source = _SOURCES[message.topic().removeprefix(self._kafka.prefix)]
            place = (source, message.partition())
            records = self.job.topics.records[place]
            if message.offset() >= len(records):
                records.append((message.key(), message.value()))
        if not found:
            return False
        stage = None
        for one in self.job.run():
            if one.stage != stage:
                assert self._producer.flush(30) == 0
                stage = one.stage
            partition = -1 if one.partition is None else one.partition
            topic = self._kafka.topic(one.topic)
            self._producer.produce(topic, one.value, one.key, partition)
        assert self._producer.flush(30) == 0
        return True

    def close(self) -> None:
        self._consumer.close()


@contextlib.asynccontextmanager
async def bridging(kafka: KafkaSettings, partitions: int) -> AsyncIterator[ChotkiBridge]:
    """Epochs follow what edges produce, while the context lasts."""
    bridge = ChotkiBridge(kafka, partitions)
    stopping = False

    def run() -> None:
        while not stopping:
            bridge.turn(0.1)
        bridge.close()

    running = asyncio.create_task(asyncio.to_thread(run))
    try:
        yield bridge
    finally:
        stopping = True
        await running
