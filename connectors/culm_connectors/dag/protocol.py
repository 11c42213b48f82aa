"""DAG replication as a protocol of the edge: its doors and its metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec

from prometheus_client.core import Metric

from culm_connectors.dag.edge.access import EdgeAccess
from culm_connectors.dag.edge.driver import DagEdge, open_dag_edge
from culm_connectors.dag.edge.from_topics import FOLLOWED
from culm_connectors.dag.edge.metrics import DagMetrics, families
from culm_connectors.dag.edge.outboxes import DagPartitions
from culm_connectors.dag.edge.quic_door import DagQuicDoor
from culm_connectors.dag.errors import DagDoorError
from culm_connectors.dag.settings import ALPN
from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, QuicDoor
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol, until_cancelled
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Ending, ProtocolStatus
from culm_connectors.followed_file import FollowedFile, certificate_expiry_s
from culm_connectors.kafka import TopicReader, TopicReaders, ask_origin, watch_origin
from culm_topics.catalogue.topics import spec
from culm_topics.dag.validation_rules import agree_on_rules
from culm_topics.kafka import admin
from culm_topics.kafka.acls import connector_group_prefix
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)


def open_dag(context: EdgeContext) -> AbstractAsyncContextManager[EdgeProtocol] | None:
    """Open DAG replication; returns None if no door is configured."""
    settings = context.settings.dag
    return None if settings.listen is None and settings.http is None else _open(context)


@asynccontextmanager
async def _open(context: EdgeContext) -> AsyncIterator[EdgeProtocol]:
    settings, kafka = context.settings.dag, context.kafka
    if settings.http is not None:
        _require_http()
    names = [kafka.topic(name) for name in FOLLOWED]
    origin = await asyncio.to_thread(ask_origin, context.administration, names)
    states = await asyncio.to_thread(admin.list_topics, kafka, [spec("dag.nodes"), spec("dag.shards")])
    context.starting("agreeing to the validation rules of the deployment")
    # This comes before any validation: an edge whose rules differ does not start (R28).
    verdict = await asyncio.to_thread(agree_on_rules, kafka, settings.verdict())
    partitions = DagPartitions(*(state.partitions for state in states))
    metrics = DagMetrics()
    context.starting("opening the folder of DAGs")
    async with open_dag_edge(context, settings, verdict, origin, partitions, metrics) as edge:
        yield DagProtocol(context, edge, origin, metrics)


class DagProtocol:
    """Implements `EdgeProtocol`. It is ready once everything that was in Kafka at its start is applied."""

    topics: Sequence[str] = FOLLOWED

    def __init__(self, context: EdgeContext, edge: DagEdge, origin: Origin, metrics: DagMetrics) -> None:
        self.edge = edge
        self._context = context
        self._origin = origin
        self._metrics = metrics
        self._missing: str | None = "starting"
        settings = context.settings.dag
        access = EdgeAccess(context.access, settings)
        self._quic = DagQuicDoor(edge.service, settings, access, metrics)
        self.doors: Sequence[Door] = (
            (QuicDoor(ALPN, settings.address(), self._quic.serve, access.judge),) if settings.listen else ()
        )
        self._http_files: tuple[FollowedFile, ...] = ()
        self.http_url: str | None = None
        """URL of the HTTP door while it is open, otherwise None."""
        self._http_endings: Callable[[], Sequence[Ending]] = tuple
        self._http_closed = asyncio.Event()
        self._http_closed.set()
        self._finishing = asyncio.Event()

    @property
    def readers(self) -> Sequence[TopicReader]:
        """Return the readers of the topics, once there are any."""
        return list(self.edge.feed.readers.values())

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Follow Kafka, and serve once the existing records are applied, until cancelled."""
        context = self._context
        group_id = f"{connector_group_prefix(context.kafka)}{context.key_pair.public_key.hex()[:16]}"
        async with asyncio.TaskGroup() as group:
            group.create_task(watch_origin(context.administration, self._origin))
            group.create_task(self.edge.run(TopicReaders(context.kafka, group_id)))
            self._missing = "reading the DAGs"
            await self.edge.feed.at_ends.wait()
            self._missing = None
            await ready()
            async with self._http_door():
                await self._finishing.wait()
            await until_cancelled()

    @asynccontextmanager
    async def _http_door(self) -> AsyncIterator[None]:
        """Open the HTTP door, if it is configured. Raises `DagDoorError`."""
        settings = self._context.settings.dag.http
        if settings is None:
            yield
            return
        # Part of an extra.
        from culm_connectors.dag.http.closing import ClosingDoor
        from culm_connectors.dag.http.server import serve_http

        closing = ClosingDoor(self._context.closing)
        try:
            async with serve_http(self.edge.service, settings, closing=closing) as url:
                logger.info("DAGs are served at %s", url)
                self.http_url, self._http_endings = url, closing.endings
                self._http_closed.clear()
                if settings.tls is not None:
                    path = settings.tls.certificate
                    self._http_files = (FollowedFile(path, expires_s=certificate_expiry_s(path)),)
                yield
        finally:
            self.http_url, self._http_files = None, ()
            self._http_closed.set()

    def why_not_ready(self) -> Sequence[str]:
        """Return what has to finish before peers are served."""
        return [] if self._missing is None else [self._missing]

    def measured(self) -> ProtocolMetrics:
        """Return the metrics that every protocol has."""
        return self._measured()

    def _measured(self) -> DagMetrics:
        metrics, edge = self._metrics, self.edge
        metrics.rejects = edge.service.refusals.counts.copy()
        metrics.nodes_in, metrics.shards_in = (
            self._quic.connections.nodes_in,
            self._quic.connections.shards_in,
        )
        metrics.files = self._http_files
        metrics.staged = len(edge.service.folder.waiting)
        metrics.records_followed = edge.feed.records
        metrics.nodes, metrics.shards, metrics.shard_bytes, metrics.spooled_bytes = edge.sizes
        return metrics

    def metrics(self) -> Iterator[Metric]:
        """Return the metrics of nodes and shards."""
        return families(self._measured())

    def status(self) -> ProtocolStatus:
        """Return the peers connected over QUIC, and the URL of the HTTP door; from any thread."""
        url = self.http_url
        return ProtocolStatus(self._quic.peers(), {} if url is None else {"http": url})

    def judge_again(self, former: AccessList) -> None:
        """Close the connections of principals that are no longer allowed by the new rules."""
        self._quic.judge_again()

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end one connection, over QUIC or HTTP."""
        return [*self._quic.endings(reason), *self._http_endings()]

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until the data received over them is in Kafka."""
        await self._quic.finish(reason)
        # Requests that were begun are answered once Kafka has their data.
        self._finishing.set()
        await self._http_closed.wait()
        await self.edge.finish()


def _require_http() -> None:
    """Raise `DagDoorError` unless the extra for HTTP is installed."""
    for module in ("starlette", "uvicorn"):
        if find_spec(module) is None:
            raise DagDoorError(
                f"the HTTP door needs {module}",
                hint="pip install 'culm[http]', or leave out [connector.dag.http]",
            )
