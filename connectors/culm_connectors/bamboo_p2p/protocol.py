"""Bamboo Point-2-Point as a protocol of the edge: its doors, flavours and metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from prometheus_client.core import Metric

from culm_connectors.bamboo_p2p.edge.access import LogAccess
from culm_connectors.bamboo_p2p.edge.apply_records import FOLLOWED
from culm_connectors.bamboo_p2p.edge.driver import FlavourEdge, open_flavour
from culm_connectors.bamboo_p2p.edge.metrics import BambooMetrics, families
from culm_connectors.bamboo_p2p.edge.publisher import SparsePartitions
from culm_connectors.bamboo_p2p.edge.settings import FlavourName
from culm_connectors.bamboo_p2p.settings import ALPNS
from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, QuicDoor, TcpDoor
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol, until_cancelled
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import ConnectedPeer, Ending, ProtocolStatus
from culm_connectors.kafka import TopicReader, TopicReaders, ask_origin, watch_origin
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka.acls import connector_group_prefix
from culm_topics.kafka.origin import Origin


def open_bamboo(context: EdgeContext) -> AbstractAsyncContextManager[EdgeProtocol] | None:
    """Open Bamboo Point-2-Point. Returns None if there is no address to listen at or to call."""
    settings = context.settings.bamboo
    if not settings.listen and not settings.connect:
        return None
    return _open(context)


@asynccontextmanager
async def _open(context: EdgeContext) -> AsyncIterator[EdgeProtocol]:
    settings, kafka = context.settings.bamboo, context.kafka
    names = [kafka.topic(name) for name in FOLLOWED]
    origin = await asyncio.to_thread(ask_origin, context.administration, names)
    sparse = [spec("fragments"), spec("payloads")]
    states = await asyncio.to_thread(admin.list_topics, kafka, sparse)
    partitions = SparsePartitions(*(state.partitions for state in states))
    metrics = BambooMetrics()
    context.starting("opening Bamboo's folders")
    async with AsyncExitStack() as stack:
        flavours: dict[FlavourName, FlavourEdge] = {}
        for name in settings.flavours:
            if settings.addresses((*settings.listen, *settings.connect), name):
                flavours[name] = await stack.enter_async_context(
                    open_flavour(context, name, origin, partitions, context.read_payload_facts, metrics)
                )
        yield BambooProtocol(context, flavours, origin, metrics)


class BambooProtocol:
    """Implements `EdgeProtocol`. It is ready once it has applied all records that Kafka had at its start."""

    topics: Sequence[str] = FOLLOWED

    def __init__(
        self,
        context: EdgeContext,
        flavours: dict[FlavourName, FlavourEdge],
        origin: Origin,
        metrics: BambooMetrics,
    ) -> None:
        self.flavours = flavours
        self._context = context
        self._origin = origin
        self._metrics = metrics
        self._settings = context.settings.bamboo
        self._missing: str | None = "starting"
        self.doors = self._doors(LogAccess(context.access))

    def _doors(self, access: LogAccess) -> Sequence[Door]:
        doors: list[Door] = []
        for name, edge in self.flavours.items():
            for url in self._settings.addresses(self._settings.listen, name):
                address = url.address
                if url.scheme == "quic":
                    doors.append(QuicDoor(ALPNS[name], address, edge.serve_quic, access.judge))
                else:
                    tls = self._settings.tls if url.scheme == "tls" else None
                    door = f"bamboo-{name}-{url.scheme}"
                    doors.append(TcpDoor(door, address, edge.serve, access.judge, tls))
        return doors

    @property
    def readers(self) -> Sequence[TopicReader]:
        """The readers of the followed topics that are being read."""
        return [reader for edge in self.flavours.values() for reader in tuple(edge.feed.readers.values())]

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Follow Kafka, and serve and call peers once the topics are read to their ends, until cancelled."""
        context = self._context
        group_id = f"{connector_group_prefix(context.kafka)}{context.key_pair.public_key.hex()[:16]}"
        topics = TopicReaders(context.kafka, group_id)
        async with asyncio.TaskGroup() as group:
            group.create_task(watch_origin(context.administration, self._origin))
            for edge in self.flavours.values():
                group.create_task(edge.run(topics))
            self._missing = "reading the logs"
            for edge in self.flavours.values():
                await edge.feed.at_ends.wait()
            for edge in self.flavours.values():
                group.create_task(edge.keep_connected(context.closing))
            self._missing = None
            await ready()
            await until_cancelled()

    def why_not_ready(self) -> Sequence[str]:
        """Return the step that has to end before peers are served; empty once the protocol is ready."""
        return [] if self._missing is None else [self._missing]

    def measured(self) -> ProtocolMetrics:
        """Return the counts that every protocol has."""
        return self._measured()

    def _measured(self) -> BambooMetrics:
        metrics, edges = self._metrics, self.flavours.values()
        metrics.rejects = sum((edge.refusals.counts for edge in edges), Counter[str]())
        metrics.staged = sum(edge.outbox.waiting_rows for edge in edges)
        metrics.staged_bytes = sum(sum(tuple(edge.outbox.waiting_bytes.values())) for edge in edges)
        metrics.over_quota = sum(edge.peer.enforcement.over_quota for edge in edges)
        metrics.logs = sum(edge.sizes.logs for edge in edges)
        metrics.spooled_bytes = sum(edge.sizes.spooled_bytes for edge in edges)
        metrics.full_shares = sum(edge.sizes.full_shares for edge in edges)
        metrics.requests = sum(edge.sizes.requests for edge in edges)
        return metrics

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics of entries and payloads."""
        return families(self._measured())

    def status(self) -> ProtocolStatus:
        """Return the connected peers; from any thread."""
        remotes = [remote for edge in self.flavours.values() for remote in tuple(edge.peer.remotes.values())]
        return ProtocolStatus([ConnectedPeer(remote.principal, None) for remote in remotes])

    def judge_again(self, former: AccessList) -> None:
        """Close the connections of principals that the changed allow-list no longer admits."""
        for edge in self.flavours.values():
            edge.judge_again()

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end one connection in good order; channels have no reasons."""
        return [end for edge in self.flavours.values() for end in edge.endings()]

    async def finish(self, reason: str) -> None:
        """End every connection, and wait until Kafka has acknowledged the data that they sent."""
        for edge in self.flavours.values():
            await edge.finish()
