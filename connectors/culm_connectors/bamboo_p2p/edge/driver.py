"""One flavour of hashes at the edge: connects its peers, its folder and Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.channels.multiplexed import Multiplexed
from culm_connectors.bamboo_p2p.channels.two_streams import accept_streams
from culm_connectors.bamboo_p2p.edge.access import EdgePolicy, LogAccess, edge_rules
from culm_connectors.bamboo_p2p.edge.apply_records import FOLLOWED, LogApplier
from culm_connectors.bamboo_p2p.edge.awaited_payloads import WAIT_S, AwaitedPayloads, ExpectedPayloads
from culm_connectors.bamboo_p2p.edge.hooks import BambooBudget, EdgeHooks, edge_budgets
from culm_connectors.bamboo_p2p.edge.log_kinds import LogKinds
from culm_connectors.bamboo_p2p.edge.metrics import BambooMetrics
from culm_connectors.bamboo_p2p.edge.outbox import DataOrigin, KafkaOutbox
from culm_connectors.bamboo_p2p.edge.publisher import OutboxPublisher, SparsePartitions
from culm_connectors.bamboo_p2p.edge.reports import HoldingReports, RefusalReports
from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.edge.tables import open_edge_folder
from culm_connectors.bamboo_p2p.errors import ChannelError
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.edge.budgets import RememberedBudgets
from culm_connectors.edge.fair_turns import calling
from culm_connectors.edge.feed import Feed
from culm_connectors.edge.intake import Intake
from culm_connectors.edge.protocol import EdgeContext
from culm_connectors.edge.serving import Ending
from culm_connectors.kafka import TopicReaders
from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.local_store.refilled_folder import condemn_folder
from culm_connectors.local_store.store_guard import StoreGuard
from culm_connectors.logs.index.documents import ReadFacts
from culm_connectors.transport import CloseCode, Identity
from culm_connectors.transport.interface import Address, ByteChannel, Connection
from culm_models.bamboo.hashes import FLAVOURS, HashFlavour
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.peer import Peer
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_topics.kafka.origin import Origin

FOLDER: Final = "bamboo"
_MEASURED_EVERY_S: Final = 2.0
_TOO_MANY: Final = "too many connections"


class EdgeSizes(NamedTuple):
    """Sizes of a folder and its connections."""

    logs: int
    spooled_bytes: int
    full_shares: int
    requests: int


class FlavourEdge:
    """The peers of one flavour, created by `open_flavour`. `run` does the work in the background."""

    def __init__(
        self,
        store: FolderStore,
        peer: BambooPeer,
        publisher: OutboxPublisher,
        feed: Feed,
        sender: BatchSender,
        outbox: KafkaOutbox,
        intake: Intake,
        refusals: RefusalReports,
        access: LogAccess,
        budgets: RememberedBudgets[str, BambooBudget],
        expected: ExpectedPayloads,
        metrics: BambooMetrics,
        settings: BambooEdgeSettings,
        flavour: HashFlavour,
        guard: StoreGuard,
    ) -> None:
        self.peer = peer
        self.sizes = EdgeSizes(0, 0, 0, 0)
        """The sizes, measured every few seconds."""
        self._store = store
        self.flavour = flavour
        self.feed = feed
        self.outbox = outbox
        self.refusals = refusals
        self._publisher = publisher
        self._sender = sender
        self._intake = intake
        self._access = access
        self._budgets = budgets
        self._expected = expected
        self._metrics = metrics
        self._settings = settings
        self._guard = guard

    async def run(self, topics: TopicReaders) -> None:
        """Follow the topics and publish until cancelled.

        Raises `OffsetLost`, `ConsumeFailed`, `ProduceFailed`, `StoreFull`, `StoreDamaged`.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._guard.failed())
            group.create_task(self.feed.run(topics))
            group.create_task(self._intake.run())
            group.create_task(self._publisher.release_now_and_then())
            group.create_task(self._sender.send_for_ever())
            group.create_task(self._measure())
            group.create_task(self._stop_expecting())

    async def _measure(self) -> None:
        """Update `sizes` regularly until cancelled."""

        def sizes(peer: Peer) -> EdgeSizes:
            requests = sum(len(connection.requests) for connection in peer.connections.values())
            store = self._store
            return EdgeSizes(len(store.logs), store.spooled_bytes, len(store.shares.full), requests)

        while True:
            self.sizes = await self.peer.work(sizes)
            await asyncio.sleep(_MEASURED_EVERY_S)

    async def _stop_expecting(self) -> None:
        """Notify peers regularly of payloads that did not arrive, until cancelled."""

        def step(peer: Peer) -> None:
            if overdue := self._expected.take_overdue():
                peer.notify_connections(Changes(overdue))

        while True:
            await asyncio.sleep(WAIT_S / 4)
            await self.peer.work(step)

    async def keep_connected(self, until: asyncio.Event) -> None:
        """Keep connections to the peers in `connect`, until cancelled or the event is set."""
        name = next(flavour for flavour in self._settings.flavours if flavour == self.flavour.name)
        async with asyncio.TaskGroup() as group:
            for url in self._settings.addresses(self._settings.connect, name):
                group.create_task(self.peer.keep_connected(url, until))

    async def serve_quic(self, connection: Connection) -> None:
        """Serve a peer that has connected over QUIC."""
        try:
            channels: TwoChannels = await accept_streams(connection)
        except ChannelError as error:
            connection.abort(CloseCode.INTERNAL, str(error))
            return
        refuse = partial(connection.abort, CloseCode.OVERLOADED, _TOO_MANY)
        await self._serve(channels, connection.remote_address, refuse)

    async def serve(self, channel: ByteChannel) -> None:
        """Serve a peer that has connected over TCP or TLS."""
        budget = self._budgets.of(channel.principal.name, time.monotonic()).channels
        channels = Multiplexed(channel, window=self._settings.data_window_bytes, budget=budget)
        await self._serve(channels, channel.remote_address, partial(channel.abort, _TOO_MANY))

    async def _serve(self, channels: TwoChannels, address: Address, refuse: Callable[[], None]) -> None:
        principal = channels.remote
        if not self._budgets.begin(principal, time.monotonic()):
            self._metrics.refused["overloaded"] += 1
            refuse()
            await channels.close(None)
            return
        try:
            with calling(address[0], principal):
                await self.peer.serve(channels)
        finally:
            self._budgets.end(principal)

    def judge_again(self) -> None:
        """Close the connections of principals that the changed allow-list no longer admits."""
        for remote in tuple(self.peer.remotes.values()):
            if not self._access.may_connect(remote.principal):
                remote.close()

    def endings(self) -> Sequence[Ending]:
        """Return functions that each end one connection in good order."""
        return [remote.close for remote in self.peer.remotes.values()]

    async def finish(self) -> None:
        """End every connection, and wait until Kafka has acknowledged the data that they sent."""
        remotes = tuple(self.peer.remotes.values())
        for remote in remotes:
            remote.close()
        await asyncio.gather(*(remote.ended.wait() for remote in remotes))
        # Entries that waited for these connections are due now.
        await self.peer.work(lambda _: None)
        self._intake.wake()
        await self._intake.wait_until_idle()
        await self._sender.send()


@asynccontextmanager
async def open_flavour(
    context: EdgeContext,
    name: str,
    origin: Origin,
    partitions: SparsePartitions,
    read_facts: ReadFacts,
    metrics: BambooMetrics,
) -> AsyncIterator[FlavourEdge]:
    """Open the folder of a flavour and connect it to peers and Kafka. Raises `FolderError`, `FolderInUse`."""
    settings, flavour = context.settings.bamboo, FLAVOURS[name]
    folder: Path = context.settings.directory / FOLDER / name
    guard = StoreGuard(folder, partial(condemn_folder, folder))
    store, tables = await asyncio.to_thread(
        lambda: open_edge_folder(
            folder,
            flavour,
            origin,
            max_spool_bytes=settings.max_spool_bytes,
            max_spool_bytes_per_peer=settings.max_spool_bytes_per_peer,
            max_spool_bytes_per_address=settings.max_spool_bytes_per_address,
        )
    )
    try:
        kinds = LogKinds(store, read_facts)
        # Another id than the connector's: p2panda's follower treats records of this edge like those of other
        # connectors, by its own rules of interest.
        connector_id = bytes(octet ^ 0xFF for octet in context.connector_id)
        expected = ExpectedPayloads()
        awaited = AwaitedPayloads(store, tables, expected, max_bytes=settings.max_unclaimed_payload_bytes)
        outbox = KafkaOutbox(
            store,
            tables,
            kinds,
            DataOrigin(context.key_pair.public_key, 0),
            connector_id,
            inline_bytes=settings.inline_payload_bytes,
            payload_wait_s=settings.payload_wait_s,
        )
        store.commit()
        sender = BatchSender(context.producer)
        refusals, holdings = RefusalReports(sender, context.kafka, flavour), HoldingReports(flavour)
        sender.add(context.kafka.topic("holdings"), holdings.take)
        intake = Intake(metrics.accept_latency)
        budgets = edge_budgets(settings)
        hooks = EdgeHooks(
            store,
            outbox,
            intake,
            holdings,
            refusals,
            metrics,
            budgets,
            max_waiting_bytes=settings.max_waiting_bytes,
            guard=guard,
        )
        identity = Identity.from_private_key(context.key_pair.private_key)
        access = LogAccess(context.access)
        policy = EdgePolicy.of(edge_rules(settings), access)
        async with BambooPeer.over(
            store,
            identity=identity,
            settings=_peer_settings(context, expected),
            hooks=hooks,
            policy=policy,
        ) as peer:
            publisher = OutboxPublisher(
                peer,
                outbox,
                context.producer,
                context.kafka,
                partitions,
                refusals,
                intake,
            )
            intake.add(publisher)
            applier = LogApplier(peer, tables, outbox, awaited, kinds, intake, metrics, connector_id)
            # Records that retention has removed from `entries` in the meantime are in `logs`.
            feed = Feed(FOLLOWED, applier, refusals.record, skip_lost=("entries",))
            yield FlavourEdge(
                store,
                peer,
                publisher,
                feed,
                sender,
                outbox,
                intake,
                refusals,
                access,
                budgets,
                expected,
                metrics,
                settings,
                flavour,
                guard,
            )
    finally:
        store.close()


def _peer_settings(context: EdgeContext, expected: ExpectedPayloads) -> BambooPeerSettings:
    """Return the settings of the peer and its connections."""
    settings = context.settings.bamboo
    return BambooPeerSettings(
        connection=BambooSettings(
            sends_greedily=settings.greedy,
            accepts_greedy=settings.greedy,
            send_window=settings.send_window_bytes,
            receive_window=settings.receive_window_bytes,
            credit=settings.credit,
            expects_payload=lambda log, seq_num: (log, seq_num) in expected,
        ),
        transport=context.settings.transport,
        tcp=context.settings.tcp,
        tls=settings.tls,
        data_window_bytes=settings.data_window_bytes,
        max_spool_bytes=settings.max_spool_bytes,
        max_spool_bytes_per_peer=settings.max_spool_bytes_per_peer,
        spool_expires_s=settings.spool_expires_s,
        busy_share=settings.busy_share,
        busy_burst_s=settings.busy_burst_s,
        progress_timeout_s=settings.progress_timeout_s,
    )
