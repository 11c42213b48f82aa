"""Chotki as a protocol of the edge: its doors, its store filled from Kafka, and its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from prometheus_client.core import Metric

from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.chotki.feed.packet_tail import PacketTail, RelayedPacket, follow_packets
from culm_connectors.chotki.host import EdgeShared, EdgeSource
from culm_connectors.chotki.local_state.state_follower import StateFollower
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.metrics import families
from culm_connectors.chotki.publisher import Partitions
from culm_connectors.chotki.settings import ALPN
from culm_connectors.chotki.sources import SourceClaim, claim, own_object
from culm_connectors.chotki.spool import SpoolFolder
from culm_connectors.chotki.storage_limits import StorageLimits
from culm_connectors.chotki.warnings.packet_ids import PacketIds
from culm_connectors.chotki.warnings.unique_watch import UniqueWatch
from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, Judge, QuicDoor, TcpDoor
from culm_connectors.edge.fair_turns import LoopTurns
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol, until_cancelled
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import ConnectedPeer, Ending, ProtocolStatus
from culm_connectors.kafka import ProducerRecord, TopicReader, TopicReaders, ask_origin, watch_origin
from culm_connectors.local_store.errors import StoreDamaged
from culm_connectors.transport import Identity
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal
from culm_connectors.url import parse_url
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.unique_values import DuplicateValue
from culm_topics.catalogue.topics import spec
from culm_topics.chotki.records import PacketRecord, RecordOrigin, source_key, source_partition
from culm_topics.kafka import admin
from culm_topics.kafka.acls import connector_group_prefix
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)

STORE_FOLDER = "chotki"
SPOOL_FOLDER = "chotki-spool"
READ_TOPICS = ("chotki.packets", "chotki.state", "chotki.sources")
_ACCESS_TABLE = "replicas"
_MAP_SIZE_BYTES = 64 * 1024 * 1024


def open_chotki(context: EdgeContext) -> AbstractAsyncContextManager[EdgeProtocol] | None:
    """Open Chotki. Returns None if there is no address to listen at or to call."""
    settings = context.settings.chotki
    if not settings.listen and not settings.connect:
        return None
    return _open(context)


@asynccontextmanager
async def _open(context: EdgeContext) -> AsyncIterator[EdgeProtocol]:
    settings = context.settings
    origin = await asyncio.to_thread(
        ask_origin, context.administration, [context.kafka.topic(name) for name in READ_TOPICS]
    )
    context.starting("opening Chotki's store")
    store = await asyncio.to_thread(
        lambda: ChotkiStore.open(
            settings.directory / STORE_FOLDER,
            origin,
            map_size_bytes=_MAP_SIZE_BYTES,
            max_size_bytes=settings.max_index_bytes,
        )
    )
    with contextlib.closing(store):
        try:
            yield ChotkiProtocol(context, store, origin)
        except StoreDamaged:
            store.condemn()
            raise


class ChotkiProtocol:
    """Implements `EdgeProtocol`. It is ready once it has read the topics to their ends at its start."""

    topics: Sequence[str] = ("chotki.packets", "chotki.state")

    def __init__(self, context: EdgeContext, store: ChotkiStore, origin: Origin) -> None:
        self._context = context
        self._store = store
        self._origin = origin
        self._settings = context.settings.chotki
        self._identity = Identity.from_private_key(context.key_pair.private_key)
        self._missing: str | None = "starting"
        self._follower: StateFollower | None = None
        self._claim: SourceClaim | None = None
        ids = PacketIds(self._settings.max_remembered_packets, store)
        self._unique = UniqueWatch(store, self._settings.max_unique_values)
        spools = context.settings.directory / SPOOL_FOLDER
        self._tail = PacketTail(
            ids,
            SpoolFolder(spools / "tail", self._settings.max_tail_bytes),
            max_memory_bytes=self._settings.max_tail_memory_bytes,
        )
        self._spools = SpoolFolder(spools / "intake", self._settings.max_spool_bytes)

        def judge(principal: Principal) -> Refusal | None:
            return context.access.rules(_ACCESS_TABLE).judge(principal)

        self.driver = ChotkiDriver(self._identity, context.settings.transport, judge, context.settings.tcp)
        self.readers: Sequence[TopicReader] = ()
        self.doors = self._doors(judge)

    def _doors(self, judge: Judge) -> Sequence[Door]:
        doors: list[Door] = []
        for url in map(parse_url, self._settings.listen):
            if url.scheme == "quic":
                doors.append(QuicDoor(ALPN, url.address, self.driver.serve_quic, judge))
            else:
                tls = self._settings.tls if url.scheme == "tls" else None
                doors.append(TcpDoor(f"chotki-{url.scheme}", url.address, self.driver.serve, judge, tls))
        return doors

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Follow Kafka, and serve and call replicas once the store is up to date, until cancelled."""
        context, settings = self._context, self._settings
        group = f"{connector_group_prefix(context.kafka)}{context.key_pair.public_key.hex()[:16]}"
        readers = TopicReaders(context.kafka, group)
        partitions = await asyncio.to_thread(self._partitions)
        follower = self._follower = StateFollower(self._store, self.driver.epoch, look=self._look_at_epoch)
        async with _finishing(follower), asyncio.TaskGroup() as group_of_tasks:
            group_of_tasks.create_task(watch_origin(context.administration, self._origin))
            group_of_tasks.create_task(follower.run(readers))
            group_of_tasks.create_task(follower.flush_now_and_then())
            self._missing = "reading chotki.state"
            await follower.ready.wait()
            self._report_duplicates(await asyncio.to_thread(self._unique.scan))
            self._missing = "reading chotki.packets"
            packets = context.kafka.topic("chotki.packets")
            # From before the epoch on, so that the ids of earlier packets are known.
            earlier = settings.max_remembered_packets // partitions.packets
            covered = dict(self._store.packets)
            self._tail.begin_at(covered)
            offsets = {
                (packets, partition): max(0, offset - earlier) for partition, offset in covered.items()
            }
            async with readers.open("chotki.packets", offsets, skip_lost=True) as reader:
                self.readers = (reader,)
                ends = {partition: end for (_, partition), end in reader.ends.items()}
                group_of_tasks.create_task(follow_packets(reader, self._tail, self._relay))
                await self._tail.until_at(ends)
                self._missing = "claiming the source"
                claim = self._claim = await self._claimed()
                group_of_tasks.create_task(claim.watch())
                limits = StorageLimits(self._store, settings.max_record_bytes)
                shared = EdgeShared(
                    store=self._store,
                    tail=self._tail,
                    source=EdgeSource(claim.src, self._tail.ids.highest(claim.src), claim.edges),
                    producer=context.producer,
                    kafka=context.kafka,
                    partitions=partitions,
                    spools=self._spools,
                    limits=limits,
                    settings=settings,
                    turns=LoopTurns(),
                    edge=context.connector_id,
                    report=self.driver.reports.event,
                    metrics=self.driver.metrics,
                )
                self.driver.begin(shared)
                if settings.mode & 2:
                    await self._say_own_object(shared)
                group_of_tasks.create_task(self.driver.follow_epochs())
                group_of_tasks.create_task(self.driver.write_reports())
                for url in settings.connect:
                    group_of_tasks.create_task(self.driver.keep_connected(url, context.closing))
                self._missing = None
                await ready()
                await until_cancelled()

    async def _look_at_epoch(self, records: Sequence[tuple[bytes, bytes]] | None) -> None:
        self._report_duplicates(await asyncio.to_thread(self._unique.records, records))

    def _relay(self, packets: Sequence[RelayedPacket]) -> None:
        for packet in packets:
            if packet.offset >= self._store.packets.get(packet.partition, 0):
                self._report_duplicates(self._unique.packet(packet.packet), packet.session)
        self.driver.relay(packets)

    def _report_duplicates(
        self, duplicates: Sequence[DuplicateValue], session: tuple[bytes, int] | None = None
    ) -> None:
        edge, number = session or (b"", 0)
        connection = self.driver.connections.get(number) if edge == self._context.connector_id else None
        for duplicate in duplicates:
            self.driver.reports.duplicate(duplicate, connection)

    async def _claimed(self) -> SourceClaim:
        context, wanted = self._context, self._settings.source
        return await claim(
            context.producer,
            context.kafka,
            None if wanted is None else int(wanted, 16),
            context.key_pair.public_key.hex(),
            context.connector_id,
            self._tail.ids.sources(),
        )

    def _partitions(self) -> Partitions:
        names = ("chotki.packets", "chotki.fields", "chotki.commits")
        states = admin.list_topics(self._context.kafka, [spec(name) for name in names])
        return Partitions(*(state.partitions for state in states))

    async def _say_own_object(self, shared: EdgeShared) -> None:
        """Produce the first packet of a new source, which has the replica's name."""
        if shared.source.counter:
            return
        src = shared.source.src
        packet = own_object(src, self._settings.name)
        value = PacketRecord(RecordOrigin(shared.edge, 0, 0), 0, packet).encode()
        partition = source_partition(src, shared.partitions.packets)
        topic = shared.kafka.topic("chotki.packets")
        await shared.producer.send(topic, [ProducerRecord(key=source_key(src), value=value)], partition)
        shared.source.raise_to(read_live(parse(packet), packet).entry.pro)

    def why_not_ready(self) -> Sequence[str]:
        """Return the reasons why replicas are not served; empty if they are."""
        reasons = [] if self._missing is None else [self._missing]
        if self._follower is not None and self._follower.full is not None:
            reasons.append(f"the store of Chotki cannot be written: {self._follower.full}")
        if not self._tail.reaches_back_to(self._store.packets):
            reasons.append("the job chotki lags: too many live packets are in no epoch yet")
        return reasons

    def measured(self) -> ProtocolMetrics:
        """Return the counts that every protocol has."""
        return self.driver.measured()

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics of packets, syncs and epochs."""
        return families(
            self.driver.measured(),
            epoch=self._store.epoch,
            tail=len(self._tail),
            tail_bytes=self._tail.bytes,
            spool_bytes=self._spools.used_bytes,
            duplicates=self._unique.count,
        )

    def status(self) -> ProtocolStatus:
        """Return the connected replicas; from any thread."""
        channels = [connection.channel for connection in tuple(self.driver.connections.values())]
        return ProtocolStatus(
            [ConnectedPeer(channel.principal.name, channel.remote_address) for channel in channels]
        )

    def judge_again(self, former: AccessList) -> None:
        """End the sessions with principals that the changed allow-list no longer admits."""
        self.driver.judge_again()

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end one session; replicas receive the protocol's own reason."""
        return self.driver.endings()

    async def finish(self, reason: str) -> None:
        """End every session, wait until Kafka has acknowledged their changes, and free the source."""
        await self.driver.finish()
        if self._claim is not None:
            await self._claim.free()


@asynccontextmanager
async def _finishing(follower: StateFollower) -> AsyncIterator[None]:
    """Finish pending writes before the store is closed."""
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(follower.close))
