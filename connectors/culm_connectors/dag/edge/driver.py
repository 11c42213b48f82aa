"""One edge of DAG replication: its folder, its service and its connection to Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from culm_connectors.dag.edge.edge_folder import open_edge_folder
from culm_connectors.dag.edge.from_topics import FOLLOWED, DagApplier
from culm_connectors.dag.edge.metrics import DagMetrics
from culm_connectors.dag.edge.outboxes import DagPartitions, NodeOutbox, ShardOutbox
from culm_connectors.dag.edge.refusals import DagRefusals
from culm_connectors.dag.edge.service import EdgeDagService
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.store.settings import DagFolderQuotas, DagFolderSettings
from culm_connectors.edge.feed import Feed
from culm_connectors.edge.intake import Intake
from culm_connectors.edge.protocol import EdgeContext
from culm_connectors.kafka import TopicReaders
from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.local_store.refilled_folder import condemn_folder
from culm_connectors.local_store.store_guard import StoreGuard
from culm_models.dag.validation_rules import ValidationRules
from culm_topics.kafka.origin import Origin

FOLDER: Final = "dag"
_MEASURED_EVERY_S: Final = 2.0
_EXPIRED_EVERY_S: Final = 60.0


class DagSizes(NamedTuple):
    """Sizes of a folder's contents."""

    nodes: int
    shards: int
    shard_bytes: int
    spooled_bytes: int


class DagEdge:
    """The service of one edge; `run` runs its background tasks. Use `open_dag_edge` to create it."""

    def __init__(
        self,
        service: EdgeDagService,
        feed: Feed,
        sender: BatchSender,
        guard: StoreGuard,
    ) -> None:
        self.service = service
        self.feed = feed
        self.sizes = DagSizes(0, 0, 0, 0)
        """Sizes of the folder, measured at most a few seconds ago."""
        self._sender = sender
        self._guard = guard

    async def run(self, topics: TopicReaders) -> None:
        """Follow the topics and publish until cancelled.

        Raises `OffsetLost`, `ConsumeFailed`, `ProduceFailed`, `StoreFull`, `StoreDamaged`.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._guard.failed())
            group.create_task(self.feed.run(topics))
            group.create_task(self.service.intake.run())
            group.create_task(self._sender.send_for_ever())
            group.create_task(self._measure())
            group.create_task(self._drop_expired())

    async def _measure(self) -> None:
        while True:
            self.sizes = await self.service.work(lambda _: DagSizes(*self.service.folder.tables.sizes()))
            await asyncio.sleep(_MEASURED_EVERY_S)

    async def _drop_expired(self) -> None:
        """Drop expired spools, forever."""
        while True:
            await asyncio.sleep(_EXPIRED_EVERY_S)
            await self.service.work(lambda folder: folder.drop_expired())

    async def finish(self) -> None:
        """Wait until everything that peers sent is in Kafka."""
        await self.service.until_idle()
        await self._sender.send()


@asynccontextmanager
async def open_dag_edge(
    context: EdgeContext,
    settings: DagEdgeSettings,
    verdict: ValidationRules,
    origin: Origin,
    partitions: DagPartitions,
    metrics: DagMetrics,
) -> AsyncIterator[DagEdge]:
    """Open the folder of an edge with its service and its outboxes. Raises `DagFolderError`."""
    path: Path = context.settings.directory / FOLDER
    guard = StoreGuard(path, partial(condemn_folder, path))
    quotas = settings.model_dump(include=set(DagFolderQuotas.model_fields))
    folder_settings = DagFolderSettings(verdict=verdict, **quotas)
    folder = await asyncio.to_thread(lambda: open_edge_folder(path, origin, folder_settings, settings))
    try:
        sender = BatchSender(context.producer)
        refusals = DagRefusals(sender, context.kafka)
        async with EdgeDagService(
            folder,
            Intake(metrics.accept_latency),
            refusals,
            busy_share=settings.busy_share,
            busy_burst_s=settings.busy_burst_s,
            watching=guard.watching,
        ) as service:
            for outbox in (NodeOutbox, ShardOutbox):
                service.intake.add(outbox(service, context.producer, context.kafka, partitions))
            feed = Feed(FOLLOWED, DagApplier(service), refusals.record)
            service.restart = feed.restart
            yield DagEdge(service, feed, sender, guard)
    finally:
        folder.close()
