"""The connector process: peers over QUIC on one side, Kafka's topics on the other, the index between them.

Start: the key, the origin of Kafka's offsets, the index (dropped when in doubt), then the topics (`intake`)
and, as soon as they allow it, the peers (`service`), whose entries are produced. A part that fails ends the
process loudly: the next start is always correct, since everything it needs is in Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from culm_connectors.aquadoggo.links import NodeLinks
from culm_connectors.checking import CheckPool
from culm_connectors.errors import ConnectorError
from culm_connectors.health import Health
from culm_connectors.index import IndexDamaged, IndexWriter, close_index, condemn, open_index
from culm_connectors.kafka import (
    BatchProducer,
    KafkaHealth,
    TopicReader,
    ask_origin,
    log_kafka_error,
    quiet,
    watch_origin,
)
from culm_connectors.keyfile import load_or_make_key
from culm_connectors.loop_watch import LoopWatch
from culm_connectors.metrics import ConnectorCollector
from culm_connectors.p2panda.subscription import Progress
from culm_connectors.parts import assemble
from culm_connectors.sds.driver import SdsDriver
from culm_connectors.sds.kafka_backbone import KafkaBackbone
from culm_connectors.service import PeerService
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport import Address
from culm_topics.kafka import KafkaSettings, admin, producer
from culm_topics.status_server import serve_status

logger = logging.getLogger(__name__)

INDEX_FOLDER = "index"
READ_TOPICS = ("announcements", "entries", "logs")
# Each of the two steps of an orderly stop that need Kafka.
STOP_TIMEOUT_S = 10.0
# While the broker is away entries wait, staged and bounded; they are not given up after some minutes.
_FOR_EVER = {"message.timeout.ms": "0"}
_CONNECTOR_ID_RANDOM = 8


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
        self.kafka = quiet(kafka)
        self.key_pair = load_or_make_key(settings.directory)
        # Of this run alone: what an earlier one produced before it was killed is not known to be indexed.
        self.connector_id = self.key_pair.public_key[:24] + secrets.token_bytes(_CONNECTOR_ID_RANDOM)
        self.service = PeerService(settings, self.key_pair, started)
        self.state: str | None = "starting"
        """What is missing before peers are served; None when they are."""
        self.health = Health(self)
        self.metrics_port: int | None = None
        self._progress = progress
        self._stop = asyncio.Event()
        self._built = False
        self.loop_watch = LoopWatch()
        self.nodes: NodeLinks | None = None
        """Links to p2panda nodes, where there are to be any."""
        self.sds: SdsDriver | None = None
        """Links to participants of SDS channels, where they are served."""

    @property
    def is_built(self) -> bool:
        """Whether driver, index and the rest are there yet: Kafka has answered and the index is open."""
        return self._built

    @property
    def address(self) -> Address | None:
        """Where peers are served; None before that, and when nobody may call."""
        return self.service.address

    @property
    def readers(self) -> tuple[TopicReader, ...]:
        """The topics that are read, once they are."""
        return self.intake.readers if self._built else ()

    def stop(self) -> None:
        """Have `run` come to its end in good order."""
        self._stop.set()

    def reload(self) -> None:
        """Read the allow-list again now."""
        self.service.reload()

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
                partial(
                    open_index,
                    folder,
                    origin,
                    map_size_bytes=self.settings.map_size_bytes,
                    max_size_bytes=self.settings.index_max_bytes,
                )
            )
            stack.callback(close_index, store)
            self.index = IndexWriter(store)
            stack.callback(self.index.close)
            self.pool = CheckPool(self.settings.driver.check_threads)
            stack.callback(self.pool.close)
            self.producer = await stack.enter_async_context(
                BatchProducer(producer(self.kafka, on_error=log_kafka_error, defaults=_FOR_EVER))
            )
            channels = None
            if self.settings.sds.enabled and self.settings.listen is not None:
                channels = await stack.enter_async_context(
                    KafkaBackbone(self.kafka, self.producer, self.connector_id, self.settings.directory)
                )
            self.kafka_health = stack.enter_context(
                KafkaHealth(administration, [self.kafka.topic(name) for name in READ_TOPICS])
            )
            self._assemble(channels)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.health.beat())
                    group.create_task(self.loop_watch.run())
                    group.create_task(self.driver.run())
                    if channels is not None and self.sds is not None:
                        group.create_task(channels.run())
                        group.create_task(self.sds.run())
                    if self.nodes is not None:
                        group.create_task(self.nodes.run())
                    group.create_task(self.publication.tell_for_ever())
                    group.create_task(self.index.flush_now_and_then())
                    group.create_task(watch_origin(administration, origin))
                    group.create_task(self.intake.run(self.service.serve))
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
        await _within(
            STOP_TIMEOUT_S,
            self.service.finish("this connector stops"),
            "entries that peers brought are not stored; they will bring them again",
        )

    def _serve_status(self, stack: contextlib.AsyncExitStack) -> None:
        if self.settings.metrics_port is not None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
            GCCollector(registry=registry)
            registry.register(ConnectorCollector(self))
            self.metrics_port = stack.enter_context(
                serve_status(
                    self.settings.metrics_host,
                    self.settings.metrics_port,
                    registry,
                    why_not_ready=self.health.why_not_ready,
                    why_not_alive=self.health.why_not_alive,
                    port_error=ConnectorError,
                )
            )

    def _assemble(self, channels: KafkaBackbone | None) -> None:
        parts = assemble(
            self.settings,
            self.kafka,
            self.key_pair,
            connector_id=self.connector_id,
            index=self.index,
            pool=self.pool,
            producer=self.producer,
            service=self.service,
            channels=channels,
            progress=self._progress,
            tell=self._tell,
        )
        self.publication, self.interest, self.boot = parts.publication, parts.interest, parts.boot
        self.driver, self.subscription, self.nodes = parts.driver, parts.subscription, parts.nodes
        self.intake, self.sds = parts.intake, parts.sds
        self._built = True

    def _tell(self, missing: str | None) -> None:
        self.state = missing


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
