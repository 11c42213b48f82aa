"""Shared service for the replicated logs of one connector, used by every protocol that carries logs.

It is opened for the first protocol that requests it (`EdgeContext.room`) and outlives all its users. The
connector provides the function that validates payloads (`EdgeContext.read_payload_facts`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient
from prometheus_client.core import Metric

from culm_connectors.edge.protocol import EdgeContext
from culm_connectors.kafka import BatchProducer, Progress, TopicReaders, ask_origin, watch_origin
from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.logs.check_pool import CheckPool
from culm_connectors.logs.hub import LogHub, LogPublisher
from culm_connectors.logs.index import IndexDamaged, IndexWriter, close_index, condemn, open_index
from culm_connectors.logs.lost_entries.settings import RepairSettings
from culm_connectors.logs.lost_entries.watch import LostEntriesWatch, ask_state
from culm_connectors.logs.metrics import of_index, of_publishing
from culm_connectors.logs.warm_start.repair import LogGaps
from culm_connectors.logs.warm_start.warm_start import WarmStart
from culm_models.bamboo.checks import check_many
from culm_topics.kafka.acls import connector_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin

INDEX_FOLDER = "index"
INDEXED_TOPICS = ("entries", "logs")
"""Topics whose offsets the index stores."""


class ReplicatedLogs:
    """The hub of one index with its producer, pool, repairs and watches. Implements `SharedService`.

    `pool` checks entries with their payloads, for peers and for topics alike.
    """

    def __init__(
        self,
        index: IndexWriter,
        pool: CheckPool[Any],
        kafka: KafkaSettings,
        producer: BatchProducer,
        topics: TopicReaders,
        connector_id: bytes,
        progress: Progress,
        watched: tuple[AdminClient, Origin],
        peer_id: bytes,
        repair: RepairSettings,
    ) -> None:
        self.index = index
        self.pool = pool
        self.topics = topics
        self.connector_id = connector_id
        self.sender = BatchSender(producer)
        self.publisher = LogPublisher(self.sender, kafka, connector_id)
        self.warm_start = WarmStart(kafka, index, pool, topics.whole_logs, progress)
        self.hub = LogHub(self.publisher, index, self.warm_start.claims)
        self.gaps = LogGaps(self.hub, index.store, pool, topics.whole_logs, self.publisher.gap)
        administration, origin = watched
        partitions = origin.partition_counts[kafka.topic("entries")]
        self.lost_entries = LostEntriesWatch(
            index,
            self.publisher,
            topics,
            partial(ask_state, administration, topics, partitions),
            peer_id,
            repair,
        )
        self.hub.subscribe(self.lost_entries)
        self._watched = watched

    async def run(self) -> None:
        """Send waiting records, flush the index, repair lost entries and watch the topics, until cancelled.

        Raises `IndexDamaged`, `RecreatedWhileRead`.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sender.send_for_ever())
            group.create_task(self.index.flush_now_and_then())
            group.create_task(watch_origin(*self._watched))
            group.create_task(self.lost_entries.run())

    def metrics(self) -> Iterator[Metric]:
        """Returns the metrics of the index, of publishing and of lost entries."""
        yield from of_index(self.index, self.warm_start, self.gaps)
        yield from of_publishing(self.publisher, self.sender, self.pool.waiting)
        yield from self.lost_entries.metrics()

    async def finish(self) -> None:
        """Send the waiting records, which include the last reports of the protocols about their peers."""
        await self.sender.send()


@asynccontextmanager
async def open_logs(context: EdgeContext) -> AsyncIterator[ReplicatedLogs]:
    """Open the index of this connector and its service. Raises `ConsumeFailed`, `IndexStoreError`."""
    settings, kafka = context.settings, context.kafka
    folder = settings.directory / INDEX_FOLDER
    read_facts = context.read_payload_facts
    origin = await asyncio.to_thread(ask_origin, context.administration, map(kafka.topic, INDEXED_TOPICS))
    context.starting("opening the index")
    with contextlib.ExitStack() as stack:
        store = await asyncio.to_thread(
            partial(
                open_index,
                read_facts,
                folder,
                origin,
                map_size_bytes=settings.map_size_bytes,
                max_size_bytes=settings.max_index_bytes,
            )
        )
        stack.callback(close_index, store)
        index = IndexWriter(store)
        stack.callback(index.close)
        pool = CheckPool(settings.check_threads, partial(check_many, read_facts=read_facts))
        stack.callback(pool.close)
        group_id = f"{connector_group_prefix(kafka)}{context.key_pair.public_key.hex()[:16]}"
        try:
            yield ReplicatedLogs(
                index,
                pool,
                kafka,
                context.producer,
                TopicReaders(kafka, group_id),
                context.connector_id,
                context.progress,
                (context.administration, origin),
                context.key_pair.public_key,
                settings.repair,
            )
        except IndexDamaged:
            condemn(folder)
            raise
