"""p2panda as a protocol of the edge: its doors, what runs behind them, what it measures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from confluent_kafka.admin import AdminClient
from prometheus_client.core import Metric

from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, QuicDoor
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol, until_cancelled
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Ending, ProtocolStatus
from culm_connectors.kafka import TopicReader, ask_origin, watch_origin
from culm_connectors.logs.replicated_logs import INDEXED_TOPICS, ReplicatedLogs, open_logs
from culm_connectors.p2panda.access import TABLE, SchemaAccess
from culm_connectors.p2panda.composition import Composition, assemble
from culm_connectors.p2panda.metric_families import families, measured
from culm_connectors.p2panda.settings import ALPN
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport import CloseCode, Identity
from culm_connectors.transport.reconnect import keep_connected
from culm_models.keys import KeyPair
from culm_topics.kafka.origin import Origin

READ_TOPICS = ("announcements", *INDEXED_TOPICS)


@asynccontextmanager
async def open_p2panda(context: EdgeContext) -> AsyncIterator[EdgeProtocol]:
    """p2panda, whether peers may call or are called. Raises `ConsumeFailed`, `IndexStoreError`."""
    logs = await context.shared_service(open_logs)
    announcements = context.kafka.topic("announcements")
    origin = await asyncio.to_thread(ask_origin, context.administration, [announcements])
    yield P2pandaProtocol(context, logs, origin)


class P2pandaProtocol:
    """Implements `EdgeProtocol`."""

    topics: Sequence[str] = READ_TOPICS

    def __init__(self, context: EdgeContext, logs: ReplicatedLogs, origin: Origin) -> None:
        self.index = logs.index
        self.access = SchemaAccess(context.access)
        self.parts = assemble(
            context.settings,
            context.kafka,
            context.key_pair,
            logs,
            access=self.access,
            progress=context.progress,
            set_state=self._set_missing,
        )
        self.doors = _doors(context.settings, self.parts, self.access)
        self._settings = context.settings
        self._key_pair: KeyPair = context.key_pair
        self._administration: AdminClient = context.administration
        self._closing = context.closing
        self._origin = origin
        self._missing: str | None = "starting"
        """The step that must finish before peers are served; None once they are served."""

    @property
    def readers(self) -> Sequence[TopicReader]:
        """The topics that are read, once they are."""
        return self.parts.followers.readers

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Read the topics, and serve peers as soon as enough has been read, until cancelled."""
        parts = self.parts
        async with asyncio.TaskGroup() as group:
            group.create_task(parts.driver.run())
            if parts.nodes is not None:
                group.create_task(parts.nodes.run())
            group.create_task(watch_origin(self._administration, self._origin))
            group.create_task(parts.followers.run(partial(self._serve, ready)))

    async def _serve(self, ready: Callable[[], Awaitable[None]], group: asyncio.TaskGroup) -> None:
        settings, nodes = self._settings, self.parts.nodes
        identity = Identity.from_private_key(self._key_pair.private_key)
        for address in settings.dial:
            group.create_task(
                keep_connected(
                    self.parts.driver, address, identity, settings.transport, alpn=ALPN, until=self._closing
                )
            )
        if nodes is not None:
            nodes.announce()
            group.create_task(nodes.keep_calling(settings.dial_libp2p, self._closing))
        await ready()
        await until_cancelled()

    def _set_missing(self, missing: str | None) -> None:
        self._missing = missing

    def why_not_ready(self) -> Sequence[str]:
        """Return the reasons: an unfinished step of the start, and an index that cannot be written."""
        reasons = [] if self._missing is None else [self._missing]
        if (full := self.index.full) is not None:
            reasons.append(f"the index cannot be written: {full}")
        return reasons

    def measured(self) -> ProtocolMetrics:
        """Return the numbers that every protocol reports."""
        return measured(self.parts)

    def metrics(self) -> Iterator[Metric]:
        """Yield p2panda's own metrics: of peers, of followers of replicated logs, and of links to nodes."""
        return families(self.parts)

    def status(self) -> ProtocolStatus:
        """Return the connected peers and nodes; from any thread."""
        nodes = self.parts.nodes
        return ProtocolStatus(
            [*self.parts.driver.links.peers(), *(nodes.driver.links.peers() if nodes is not None else ())]
        )

    def judge_again(self, former: AccessList) -> None:
        """Close the links of peers that may no longer connect, or whose schemas have changed."""
        rules, before = self.access.access.rules(TABLE), former.rules(TABLE)
        nodes = self.parts.nodes
        for driver in (self.parts.driver, *((nodes.driver,) if nodes is not None else ())):
            for remote in tuple(link.remote for link in driver.links.open.values()):
                allowed = rules.of(remote.hex())
                if allowed == frozenset():
                    driver.disconnect(remote, CloseCode.REVOKED, "this key is no longer allowed")
                elif allowed != before.of(remote.hex()):
                    driver.disconnect(remote, CloseCode.SHUTTING_DOWN, "the rules for this key have changed")

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end one link, to a peer or a node."""
        nodes = self.parts.nodes
        return [
            *self.parts.driver.links.endings(reason),
            *(nodes.driver.links.endings(reason) if nodes is not None else ()),
        ]

    async def finish(self, reason: str) -> None:
        """Close every link, and wait until all entries that peers sent are stored."""
        if self.parts.nodes is not None:
            await self.parts.nodes.finish(reason)
        await self.parts.driver.finish(reason)


def _doors(settings: ConnectorSettings, parts: Composition, access: SchemaAccess) -> Sequence[Door]:
    doors: list[Door] = []
    if settings.listen is not None:
        doors.append(QuicDoor(ALPN, settings.listen, parts.driver.serve, access.judge))
    if parts.nodes is not None and settings.listen_libp2p is not None:
        doors.append(parts.nodes.door(settings.listen_libp2p, access.judge))
    return doors
