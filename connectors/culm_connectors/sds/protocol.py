"""SDS as a protocol of the edge: its door, its driver over Kafka, and what it measures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from prometheus_client.core import Metric

from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, QuicDoor
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Ending, ProtocolStatus
from culm_connectors.kafka import TopicReader
from culm_connectors.sds.access import ChannelAccess
from culm_connectors.sds.driver import SdsDriver
from culm_connectors.sds.kafka_backbone import KafkaBackbone
from culm_connectors.sds.metrics import families
from culm_connectors.sds.settings import ALPN
from culm_connectors.transport import Address


def open_sds(context: EdgeContext) -> AbstractAsyncContextManager[EdgeProtocol] | None:
    """SDS at the address of `listen`, if it is to be served."""
    listen = context.settings.listen
    if listen is None or not context.settings.sds.enabled:
        return None
    return _open(context, listen)


@asynccontextmanager
async def _open(context: EdgeContext, listen: Address) -> AsyncIterator[EdgeProtocol]:
    access = ChannelAccess(context.access)
    async with KafkaBackbone(
        context.kafka, context.producer, context.connector_id, context.settings.directory
    ) as backbone:
        driver = SdsDriver(
            backbone, context.settings.sds, connector_id=context.connector_id, permit=access.permit
        )
        backbone.subscribe(driver.channels)
        yield SdsProtocol(driver, backbone, QuicDoor(ALPN, listen, driver.serve, access.judge))


class SdsProtocol:
    """Implements `EdgeProtocol`. It is ready at once, since nothing is read before the first join."""

    topics: Sequence[str] = ()
    readers: Sequence[TopicReader] = ()

    def __init__(self, driver: SdsDriver, backbone: KafkaBackbone, door: QuicDoor) -> None:
        self.driver = driver
        self.doors: Sequence[Door] = (door,)
        self._backbone = backbone

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Serve participants until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._backbone.run())
            group.create_task(self.driver.run())
            await ready()

    def why_not_ready(self) -> Sequence[str]:
        """An index of stored messages that cannot be written; nothing else is waited for."""
        failure = self._backbone.failure
        return [] if failure is None else [f"sds: stored messages are not found by their ids: {failure}"]

    def measured(self) -> ProtocolMetrics:
        """Return the numbers that every protocol reports."""
        metrics, driver = self.driver.metrics, self.driver
        metrics.unsent_bytes, metrics.waiting_for_turn = driver.unsent.bytes, driver.channels.turns.waiting
        return metrics

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics of channels and their participants."""
        return families(self.driver.metrics)

    def status(self) -> ProtocolStatus:
        """Return the connected participants; from any thread."""
        return ProtocolStatus(self.driver.links.peers())

    def judge_again(self, former: AccessList) -> None:
        """Other rules are in force."""
        self.driver.judge_again()

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end the connection of one participant."""
        return self.driver.links.endings(reason)

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until all they sent is in Kafka."""
        await self.driver.finish(reason)
