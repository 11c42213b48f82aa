"""The Kafka that a demo plays on: a stack of its own, or the cluster that it was given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from culm_infra.demo.kit.processes import Show
from culm_infra.stack import Stack
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import TopicSpec


@asynccontextmanager
async def broker(
    directory: Path,
    given: KafkaSettings | None,
    show: Show,
    *,
    heap_mb: int | None,
    keep: bool,
    topics: Sequence[TopicSpec] = CATALOGUE,
) -> AsyncIterator[KafkaSettings]:
    """Kafka with all topics, or with these.

    A stack of the demo's own is stopped at the end unless it is to be kept.
    """
    with ExitStack() as stack:
        kafka = given
        if kafka is None:
            local = Stack(directory)
            show("starting Kafka")
            if not keep:
                stack.callback(local.down)
            bootstrap = await asyncio.to_thread(local.up, heap_mb=heap_mb, quick_start=True)
            kafka = KafkaSettings(bootstrap=bootstrap)
        if topics:
            show("creating the topics")
            await asyncio.to_thread(admin.create, kafka, topics)
        yield kafka
