"""The connector process: peers over QUIC on one side, Kafka's topics on the other, the index between them.

Start: the key, the origin of Kafka's offsets, the index (dropped when in doubt), then `blocks`,
`announcements` and `logs` are read to the end that they have at that moment. Peers are served as soon as
`blocks` has told which logs there are, else when `logs` has been read. From then on `entries`, `logs` and
`announcements` are followed, and what peers bring is produced. A part that fails ends the process loudly:
the next start is always correct, since everything it needs is in Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from confluent_kafka import Consumer, KafkaError
from prometheus_client import CollectorRegistry

from culm_connectors.access import ALLOW_EVERYBODY, AccessList, load_access_list
from culm_connectors.aquadoggo.links import NodeLinks
from culm_connectors.boot.boot import Boot
from culm_connectors.boot.claiming_store import ClaimingStore
from culm_connectors.checking import CheckPool
from culm_connectors.index import IndexDamaged, IndexWriter, close_index, condemn, open_index
from culm_connectors.kafka import BatchProducer, TopicReader, ask_origin, watch_origin
from culm_connectors.kafka.consumer import Partition
from culm_connectors.keyfile import load_or_make_key
from culm_connectors.metrics import ConnectorCollector
from culm_connectors.p2panda.dialling import keep_connected
from culm_connectors.p2panda.driver import Driver
from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.publication import Publication
from culm_connectors.p2panda.sessions import LogKey
from culm_connectors.p2panda.settings import peer_settings
from culm_connectors.p2panda.subscription import Progress, Subscription
from culm_connectors.settings import ALPN, ConnectorSettings
from culm_connectors.status_server import serve_status
from culm_connectors.transport import Address, Authorise, CloseCode, Identity, Listener, Refusal, serve
from culm_connectors.watch import watch_access_list
from culm_models.p2panda.events import Announced, Event, Heights, LinkFailed, Rejected
from culm_models.p2panda.messages import Announce, Message, SyncRequest
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.schema_id import normalise
from culm_topics.kafka import KafkaSettings, admin, consumer, producer

logger = logging.getLogger(__name__)

INDEX_FOLDER = "index"
READ_TOPICS = ("announcements", "entries", "logs")
# Each of the two steps of an orderly stop that need Kafka.
STOP_TIMEOUT_S = 10.0
# While the broker is away entries wait, staged and bounded; they are not given up after some minutes.
_FOR_EVER = {"message.timeout.ms": "0"}
_CONNECTOR_ID_RANDOM = 8


def log_kafka_error(error: KafkaError) -> None:
    """What the Kafka client has to say; it goes on trying by itself."""
    logger.warning("Kafka: %s", error.str())


def log_progress(what: str, done: int, total: int) -> None:
    """Progress as log lines."""
    logger.info("%s: %d of %d records", what, done, total)


class Connector:
    """One connector; `run` is its whole life.

    `started` is called with the address it serves on (None if it serves nobody) once peers may come.
    """

    def __init__(
        self,
        settings: ConnectorSettings,
        kafka: KafkaSettings,
        *,
        started: Callable[[Address | None], None] = lambda _: None,
        progress: Progress = log_progress,
    ) -> None:
        self.settings = settings
        self.kafka = _quiet(kafka)
        self.key_pair = load_or_make_key(settings.directory)
        # Of this run alone: what an earlier one produced before it was killed is not known to be indexed.
        self.connector_id = self.key_pair.public_key[:24] + secrets.token_bytes(_CONNECTOR_ID_RANDOM)
        self.access = (
            ALLOW_EVERYBODY if settings.allow_list is None else load_access_list(settings.allow_list)
        )
        self.state: str | None = "starting"
        """What is missing before peers are served; None when they are."""
        self.metrics_port: int | None = None
        self.address: Address | None = None
        self._started = started
        self._progress = progress
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self._listener: Listener | None = None
        self._built = False
        self.nodes: NodeLinks | None = None
        """Links to p2panda nodes, where there are to be any."""
        self.readers: tuple[TopicReader, ...] = ()

    @property
    def is_built(self) -> bool:
        """Whether driver, index and the rest are there yet: Kafka has answered and the index is open."""
        return self._built

    def stop(self) -> None:
        """Have `run` come to its end in good order."""
        self._stop.set()

    def reload(self) -> None:
        """Read the allow-list again now."""
        self._reload.set()

    async def run(self) -> None:
        """Serve until `stop` is called.

        Raises what made it impossible: Kafka's absence at the start, a lost offset, a damaged index.
        """
        folder = self.settings.directory / INDEX_FOLDER
        async with contextlib.AsyncExitStack() as stack:
            self._serve_status(stack)
            administration = admin(self.kafka)
            origin = await asyncio.to_thread(
                ask_origin, administration, [self.kafka.topic(name) for name in READ_TOPICS]
            )
            self.state = "opening the index"
            store = await asyncio.to_thread(
                partial(open_index, folder, origin, map_size_bytes=self.settings.map_size_bytes)
            )
            stack.callback(close_index, store)
            self.index = IndexWriter(store)
            stack.callback(self.index.close)
            self.pool = CheckPool(self.settings.driver.check_threads)
            stack.callback(self.pool.close)
            self.producer = await stack.enter_async_context(
                BatchProducer(producer(self.kafka, on_error=log_kafka_error, defaults=_FOR_EVER))
            )
            self._build()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.driver.run())
                    if self.nodes is not None:
                        group.create_task(self.nodes.run())
                    group.create_task(self.publication.tell_for_ever())
                    group.create_task(self.index.flush_now_and_then())
                    group.create_task(watch_origin(administration, origin))
                    group.create_task(self._work())
                    await self._stop.wait()
                    await self._drain()
                    raise _Stopped
            except BaseExceptionGroup as group_error:
                error = _first(group_error)
                if isinstance(error, IndexDamaged):
                    condemn(folder)
                if not isinstance(error, _Stopped):
                    raise error from group_error
                await _within(
                    STOP_TIMEOUT_S, self.publication.tell(), "what was to be told of peers is not told"
                )

    async def _drain(self) -> None:
        """Take nothing more from peers; what was taken is produced and indexed.

        Nothing is lost where that takes too long: no peer has been told that we hold it.
        """
        self.state = "stopping"
        self._set_authorise(lambda *_: Refusal("this connector stops", CloseCode.SHUTTING_DOWN))
        await _within(
            STOP_TIMEOUT_S,
            self._finish("this connector stops"),
            "entries that peers brought are not stored; they will bring them again",
        )

    async def _finish(self, reason: str) -> None:
        if self.nodes is not None:
            await self.nodes.finish(reason)
        await self.driver.finish(reason)

    def _serve_status(self, stack: contextlib.AsyncExitStack) -> None:
        if self.settings.metrics_port is not None:
            registry = CollectorRegistry()
            registry.register(ConnectorCollector(self))
            self.metrics_port = stack.enter_context(
                serve_status(
                    self.settings.metrics_host, self.settings.metrics_port, registry, lambda: self.state
                )
            )

    def _build(self) -> None:
        settings = self.settings
        self.publication = Publication(self.producer, self.index, self.kafka, self.connector_id)
        self.interest = Interest(settings.schemas, self.index.store)
        self.boot = Boot(self.kafka, self.index, self.pool, lambda: self._reader("logs", {}), self._progress)
        peer = Peer(
            self.key_pair.public_key,
            ClaimingStore(self.index.store, self.boot.claims),
            peer_settings(
                settings.sessions, settings.driver, live_mode=settings.live_mode, compat=settings.compat
            ),
            random_seed=secrets.randbits(64),
        )
        self.driver = Driver(
            peer,
            reader=self.index,
            sink=self.publication,
            observer=self,
            pool=self.pool,
            settings=settings.driver,
            permit=self._permit,
            expectations=self.boot.claims,
        )
        self.subscription = Subscription(
            driver=self.driver,
            index=self.index,
            interest=self.interest,
            publication=self.publication,
            pool=self.pool,
            boot=self.boot,
            connector_id=self.connector_id,
            verify_entries=settings.verify_entries_topic,
        )
        if settings.listen_libp2p is not None or settings.dial_libp2p:
            self.nodes = NodeLinks(
                self.key_pair,
                beside=self.driver,
                schemas=lambda: tuple(filter(self.interest.keeps, self.interest.served)),
                index=self.index,
                sink=self.publication,
                observer=self,
                pool=self.pool,
                settings=settings.driver,
                transport=settings.transport,
                permit=self._permit,
            )
        self._built = True

    # Reading Kafka.

    def _reader(self, name: str, offsets: Mapping[Partition, int], *, skip_lost: bool = False) -> TopicReader:
        def make() -> Consumer:
            group = f"culm-connector-{self.key_pair.public_key.hex()[:16]}"
            return consumer(
                self.kafka,
                group_id=group,
                on_error=log_kafka_error,
                defaults={"enable.partition.eof": "true"},
            )

        return TopicReader(make, self.kafka.topic(name), offsets, skip_lost=skip_lost)

    async def _work(self) -> None:
        offsets = self.index.store.offsets()
        self.state = "reading blocks"
        # Before `logs`, so that reading `logs` to its end reaches all that is told.
        self.interest.promise(await self.boot.promise(self.interest.wanted))
        async with (
            self._reader("announcements", {}) as announcements,
            self._reader("logs", offsets) as logs,
            # What retention removed from `entries` while we were away is in `logs`.
            self._reader("entries", offsets, skip_lost=True) as entries,
            asyncio.TaskGroup() as group,
        ):
            self.readers = (announcements, logs, entries)
            self.state = "reading announcements"
            async for batch in announcements.read_to_end():
                self.subscription.take_announcements(batch)
            group.create_task(self.subscription.follow_announcements(announcements))
            await self.boot.check(logs.ends)
            serving = None
            if self.settings.serve_before_caught_up:
                serving = group.create_task(self._serve(group))
            elif self.boot.claims.anything:
                # Of these it is known what they will be; the others follow when `logs` has been read.
                self.driver.announce(normalise(self.boot.claims.schema_ids))
                self.state = None
                serving = group.create_task(self._serve(group))
            await self._catch_up(logs, fresh=not offsets)
            await self.subscription.announce_served()
            group.create_task(self.subscription.follow_logs(logs, lambda: self._reader("logs", {})))
            group.create_task(self.subscription.follow_entries(entries))
            self.state = None
            await (serving or group.create_task(self._serve(group)))

    async def _catch_up(self, logs: TopicReader, *, fresh: bool) -> None:
        what = "building the index from logs" if fresh else "catching up with logs"
        if not self.driver.announced:
            self.state = what
        if fresh:
            self.interest.cover(self.interest.missing)
            self.subscription.built_from_logs = True
        await self.subscription.read_to_end(logs, what, progress=self._progress)
        await self.subscription.read_back(lambda: self._reader("logs", {}), logs, self._progress)
        await self.boot.settle(logs.positions)
        held, entries = self.index.store.counts()
        logger.info("the index holds %d entries of %d logs", entries, held)

    # Serving peers.

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        settings = self.settings
        identity = Identity.from_private_key(self.key_pair.private_key)
        if not self.driver.announced:
            await self.subscription.announce_served()
        for address in settings.dial:
            group.create_task(keep_connected(self.driver, address, identity, settings.transport, alpn=ALPN))
        if settings.allow_list is not None:
            group.create_task(
                watch_access_list(
                    settings.allow_list, self._apply_access, self._reload, settings.reload_interval_s
                )
            )
        async with contextlib.AsyncExitStack() as stack:
            if self.nodes is not None:
                await self.nodes.start(
                    stack,
                    group,
                    listen=settings.listen_libp2p,
                    dial=settings.dial_libp2p,
                    authorise=self.access.authorise,
                )
            if settings.listen is not None:
                self._listener = await stack.enter_async_context(
                    serve(
                        settings.listen,
                        identity,
                        settings.transport,
                        self.driver.serve,
                        alpn=ALPN,
                        authorise=self.access.authorise,
                    )
                )
                self.address = self._listener.address
            self._started(self.address)
            await asyncio.Event().wait()

    def _set_authorise(self, authorise: Authorise) -> None:
        if self._listener is not None:
            self._listener.set_authorise(authorise)
        if self.nodes is not None:
            self.nodes.set_authorise(authorise)

    def _apply_access(self, access: AccessList) -> None:
        """Put another allow-list in force; connections that it judges otherwise are closed."""
        former, self.access = self.access, access
        self._set_authorise(access.authorise)
        for driver in (self.driver, *((self.nodes.driver,) if self.nodes is not None else ())):
            for remote in tuple(driver.links):
                if not access.allows(remote):
                    driver.disconnect(remote, CloseCode.REVOKED, "this key is no longer allowed")
                elif access.schemas_of(remote) != former.schemas_of(remote):
                    driver.disconnect(remote, CloseCode.SHUTTING_DOWN, "the rules for this key have changed")

    def _permit(self, remote: bytes, message: Message) -> Message | None:
        """What a remote says, as far as the allow-list lets it."""
        allowed = self.access.schemas_of(remote)
        if allowed is None or not isinstance(message, Announce | SyncRequest):
            return message
        permitted = self.access.permitted(remote, message.schema_ids)
        if len(permitted) == len(message.schema_ids):
            return message
        self.driver.metrics.ignored["connector.access"] += 1
        logger.warning("peer %s asks for schemas that it is not allowed", remote.hex()[:16])
        if isinstance(message, SyncRequest):
            return None
        return dataclasses.replace(message, schema_ids=permitted)

    # What the driver tells.

    wants_deliveries = True

    def on_event(self, event: Event) -> None:
        """Pass on what is worth telling."""
        if isinstance(event, Announced):
            if self.subscription.announced_here(event.remote, event.timestamp, event.raw):
                self.publication.announcement(event)
            if self.interest.want(event.schema_ids):
                self.subscription.backfill_wanted.set()
        elif isinstance(event, Rejected):
            self.publication.rejected(event)
        elif isinstance(event, Heights):
            self.publication.heights(event)
        elif isinstance(event, LinkFailed):
            self.publication.refused(event)

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A peer has received entries up to these numbers."""
        self.publication.delivered(remote, heights)


def _quiet(kafka: KafkaSettings) -> KafkaSettings:
    """Errors come to us as events; librdkafka's own lines about them, twenty a second, help nobody."""
    return kafka.model_copy(update={"options": {"log_level": "2"} | kafka.options})


async def _within(timeout_s: float, work: Awaitable[None], otherwise: str) -> None:
    """Work that must not hold up the end of a process; `otherwise` is what is logged when it takes longer."""
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except TimeoutError:
        logger.warning("stopping without waiting longer for Kafka: %s", otherwise)


def _first(error: BaseException) -> BaseException:
    """The first error of a group, unwrapped: the one that ended the others."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Stopped(Exception):
    """Ends the tasks of a connector that was told to stop."""
