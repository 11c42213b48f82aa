"""The connector process: peers at its doors on one side, Kafka's topics on the other.

Start: the key, the allow-list, Kafka's clients, then the protocols of the table, each with the services that
it shares with others. All are opened, then all run, and the doors of each open when it is ready. A part that
fails ends the process with an error: the next start is always correct, since everything it needs is in Kafka.
There is one exception. If a local store cannot be opened or written, or is damaged, the protocols that do not
use it keep running (`edge.opening.reopening`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from culm_connectors.edge.access import AccessList, AccessWatch
from culm_connectors.edge.doors import Doors
from culm_connectors.edge.draining import REASON, STATE, Draining, finish_within
from culm_connectors.edge.health import Health, Running
from culm_connectors.edge.keyfile import load_or_make_key
from culm_connectors.edge.metrics import ConnectorCollector, LoopWatch
from culm_connectors.edge.opening.reopening import ReopenedProtocol
from culm_connectors.edge.opening.shared_services import SharedServices
from culm_connectors.edge.protocol import (
    CONNECTOR_ID_RANDOM,
    EdgeContext,
    EdgeProtocol,
    log_progress,
)
from culm_connectors.edge.status import ConnectorStatus
from culm_connectors.errors import ConnectorError, DirectoryInUse
from culm_connectors.kafka import BatchProducer, KafkaHealth, Progress, log_kafka_error, quiet
from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.open_files import allow_open_files
from culm_connectors.protocols import LOG_PAYLOADS, PROTOCOLS, ProtocolEntry, load
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport import Address, Identity
from culm_topics.kafka.clients import KafkaSettings, admin, producer
from culm_topics.process_status import ProcessStatus
from culm_topics.status_server import serve_status
from culm_topics.status_socket import CONNECTOR_SOCKET, status_socket

# Timeout of each step of an orderly stop that needs Kafka.
STOP_TIMEOUT_S = 10.0
# While the broker is away, entries stay staged, within limits; they are not given up after some minutes.
_FOR_EVER = {"message.timeout.ms": "0"}


class Connector:
    """One connector; `run` serves until it is stopped.

    `started` is called once every protocol is ready, with the QUIC address (None if QUIC is not served).
    Raises `AccessError`: the allow-list cannot be read.
    """

    def __init__(
        self,
        settings: ConnectorSettings,
        kafka: KafkaSettings,
        *,
        started: Callable[[Address | None], None] = lambda _: None,
        progress: Progress = log_progress,
        protocols: Sequence[ProtocolEntry] = PROTOCOLS,
    ) -> None:
        self.settings = settings
        self.kafka = quiet(kafka)
        self.key_pair = load_or_make_key(settings.directory)
        self.protocols: dict[str, EdgeProtocol] = {}
        """The open protocols, by name."""
        self.services = SharedServices()
        """The services that protocols share."""
        self.doors: Doors | None = None
        self.loop_watch = LoopWatch()
        self.draining = Draining(settings.drain)
        self.health = Health(self._doing, lambda: self._running)
        self.collector = ConnectorCollector(
            self.health, self.loop_watch, lambda: self._running, lambda: self._access.files
        )
        self.metrics_port: int | None = None
        self.status = ConnectorStatus(
            ProcessStatus("connector", kafka),
            settings.directory,
            self.key_pair.public_key,
            self.health,
            state=self._doing,
            running=lambda: self._running,
            metrics_port=lambda: self.metrics_port,
            draining=self.draining,
        )
        self._connector_id = self.key_pair.public_key[:24] + secrets.token_bytes(CONNECTOR_ID_RANDOM)
        self._access = AccessWatch(
            settings.allow_list, [protocol.access_table for protocol in protocols], settings.reload_interval_s
        )
        self._entries = protocols
        self._started = started
        self._progress = progress
        self._state: str | None = "starting"
        self._running: Running | None = None
        self._ready: set[str] = set()

    @property
    def is_ready(self) -> bool:
        """Return whether every protocol is ready and its doors are open."""
        return self._running is not None and self._ready >= self.protocols.keys()

    @property
    def address(self) -> Address | None:
        """Return the QUIC address; None until every protocol is ready, and if QUIC is not served."""
        if self.doors is None or not self.is_ready:
            return None
        return self.doors.quic_address

    def stop(self) -> None:
        """Make `run` end in good order; all connections are ended at once. A second call hurries."""
        self.draining.request(is_spread=False)

    def drain(self) -> None:
        """Make `run` end in good order; connections are ended in turn. A second call hurries."""
        self.draining.request(is_spread=True)

    def handle_signals(self) -> None:
        """Stop on SIGINT and SIGTERM, drain on SIGUSR1, and reload the allow-list on SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGUSR1, self.drain)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        self.draining.signal = signal.SIGUSR1.name

    def reload(self) -> None:
        """Reload the allow-list now."""
        self._access.reload()

    async def run(self) -> None:
        """Serve until `stop` is called.

        Raises the error that made it impossible, such as Kafka being unreachable at the start or a lost
        offset. Raises `DirectoryInUse` before anything in the directory is read.
        """
        allow_open_files()
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._lock_directory().release)
            stack.enter_context(self.status.process.collect_warnings())
            stack.enter_context(
                status_socket(self.settings.directory / CONNECTOR_SOCKET, self.status.document)
            )
            self._serve_status(stack)
            administration = admin(self.kafka)
            batches = await stack.enter_async_context(
                BatchProducer(producer(self.kafka, on_error=log_kafka_error, defaults=_FOR_EVER))
            )
            context = EdgeContext(
                settings=self.settings,
                kafka=self.kafka,
                key_pair=self.key_pair,
                connector_id=self._connector_id,
                administration=administration,
                producer=batches,
                access=self._access,
                read_payload_facts=load(LOG_PAYLOADS),
                progress=self._progress,
                starting=self._starting,
                closing=self.draining.closing,
                shared=self.services,
                stack=stack,
            )
            opened = [
                await stack.enter_async_context(
                    ReopenedProtocol(entry.name, entry.load(), context, self.protocols)
                )
                for entry in self._entries
            ]
            protocols = tuple(self.protocols.values())
            kafka_health = stack.enter_context(KafkaHealth(administration, self._topics))
            doors = self.doors = await stack.enter_async_context(
                Doors(
                    [door for protocol in protocols for door in protocol.doors],
                    Identity.from_private_key(self.key_pair.private_key),
                    self.settings.transport,
                    self.settings.tcp,
                )
            )
            self._running = Running(kafka_health, batches, self.protocols, self.services, doors)
            self._state = None
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.health.beat())
                    group.create_task(self.loop_watch.run())
                    group.create_task(self._access.run(self._judge_again))
                    for reopened in opened:
                        ready = partial(self._open_doors, reopened.name, doors)
                        group.create_task(reopened.run(doors, ready), name=reopened.name)
                    await self.draining.requested.wait()
                    await self._finish(doors)
                    raise _Stopped
            except BaseExceptionGroup as group_error:
                error = _first(group_error)
                if not isinstance(error, _Stopped):
                    raise error from group_error

    def _lock_directory(self) -> FolderLock:
        directory = self.settings.directory
        return FolderLock(
            directory,
            lambda: DirectoryInUse(
                f"another connector runs over {directory}", hint="stop it or give another --dir"
            ),
            file_name="connector.lock",
        )

    def _topics(self) -> Sequence[str]:
        """Return the full names of the topics whose end offsets are monitored."""
        return [
            self.kafka.topic(name) for protocol in tuple(self.protocols.values()) for name in protocol.topics
        ]

    def _doing(self) -> str | None:
        """Return what the whole process is doing, in words; None while it serves."""
        return STATE if self.draining.requested.is_set() else self._state

    def _starting(self, what: str) -> None:
        # Later, a protocol that is opened again reports by itself why it is not ready.
        if self._running is None:
            self._state = what

    async def _open_doors(self, name: str, doors: Doors, protocol: EdgeProtocol) -> None:
        await doors.open(protocol.doors)
        if name in self._ready:
            return  # it was opened again
        self._ready.add(name)
        if self.is_ready:
            self._started(self.address)

    def _judge_again(self, former: AccessList) -> None:
        if self.doors is not None:
            self.doors.judge_again()
        for protocol in self.protocols.values():
            protocol.judge_again(former)

    async def _finish(self, doors: Doors) -> None:
        """Take nothing more from peers, and wait until what was taken is kept.

        If that takes too long, nothing is lost: it was acknowledged to no peer.
        """
        protocols = self.protocols
        if not self._ready:
            self.draining.hurry()  # it was asked to end while it started
        await self.draining.end_connections(
            doors.refuse,
            lambda reason: [protocol.endings(reason) for protocol in protocols.values()],
            lambda: sum(protocol.measured().connections for protocol in protocols.values()),
        )
        doors.cut_off()
        async with asyncio.TaskGroup() as group:
            for name, protocol in protocols.items():
                group.create_task(finish_within(STOP_TIMEOUT_S, protocol.finish(REASON), name))
        for service in self.services:
            await finish_within(STOP_TIMEOUT_S, service.finish(), type(service).__name__)

    def _serve_status(self, stack: contextlib.AsyncExitStack) -> None:
        if self.settings.metrics_port is not None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
            GCCollector(registry=registry)
            registry.register(self.collector)
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


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group, unwrapped: the one that ended the others."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Stopped(Exception):
    """Ends the tasks of a connector that is to stop."""
