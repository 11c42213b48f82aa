"""All connections of an edge with replicas: accepts and opens them, and sends them the changes of others.

Received changes go to Kafka only. Peers are sent the newest epoch, the packets beyond it, and a follow-up
sync after each epoch if packets alone cannot bring them up to date (reference 9.2).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from functools import partial

from culm_connectors.chotki.budgets import ReplicaBudget, replica_budgets
from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.dial import dialled, stream_for
from culm_connectors.chotki.errors import StoreIncomplete, TailTooLong
from culm_connectors.chotki.feed.packet_tail import RelayedPacket
from culm_connectors.chotki.host import EdgeShared
from culm_connectors.chotki.metrics import ChotkiMetrics
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.chotki.warnings.session_reports import SessionReports
from culm_connectors.clock import steady_ms
from culm_connectors.edge.doors import Judge
from culm_connectors.edge.fair_turns import calling
from culm_connectors.edge.serving import Ending
from culm_connectors.errors import ConnectorError
from culm_connectors.rate_limit import LimitedLog
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel, Connection
from culm_connectors.transport.reconnect import Backoff, keep_trying
from culm_connectors.transport.tcp.settings import DEFAULT_TCP, TcpSettings
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.packet import write_bye
from culm_models.chotki.sync.progress import NO_PROGRESS, Progress
from culm_topics.chotki.records import EpochRecord

logger = logging.getLogger(__name__)


class ChotkiDriver:
    """The connections of one edge. `serve` and `serve_quic` are handlers of its doors."""

    def __init__(
        self,
        identity: Identity,
        transport: TransportSettings,
        judge: Judge,
        tcp: TcpSettings = DEFAULT_TCP,
    ) -> None:
        self.connections: dict[int, ReplicaConnection] = {}
        self.metrics = ChotkiMetrics()
        self.reports = SessionReports(self.metrics)
        self._identity = identity
        self._transport = transport
        self._tcp = tcp
        self._judge = judge
        self._numbers = 0
        self._budgets = replica_budgets(ChotkiEdgeSettings())
        self._log = LimitedLog(logger)
        self._shared: EdgeShared | None = None
        self._newest: EpochRecord | None = None
        self._moved_on = asyncio.Event()

    def begin(self, shared: EdgeShared) -> None:
        """Set the state to serve from, once it is ready."""
        self._shared = shared
        self._budgets = replica_budgets(shared.settings)

    @property
    def shared(self) -> EdgeShared:
        """The state that all connections share."""
        assert self._shared is not None, "doors open after `begin`"
        return self._shared

    # Incoming and outgoing connections.

    async def serve(self, channel: ByteChannel) -> None:
        """Serve a replica on a channel until it ends."""
        host, port = channel.remote_address
        await self._run_session(channel, f"{host}:{port}")

    async def serve_quic(self, connection: Connection) -> None:
        """Serve a replica that has connected over QUIC."""
        await self.serve(await stream_for(connection))

    async def keep_connected(self, url: str, until: asyncio.Event | None = None) -> None:
        """Keep a connection to a replica, and reconnect when it ends, until cancelled or the event is set."""
        settings = self.shared.settings
        backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s)
        await keep_trying(partial(self._call, url), backoff, name=url, until=until)

    def judge_again(self) -> None:
        """End the connections that the changed allow-list no longer admits, in both directions."""
        for connection in tuple(self.connections.values()):
            if (refusal := self._judge(connection.channel.principal)) is not None:
                connection.reason = "access"
                if connection.channel.close_reason is None:  # otherwise the door has ended and counted it
                    self.metrics.closed["revoked"] += 1
                connection.channel.abort(refusal.text)

    async def _call(self, url: str) -> bool:
        tls = self.shared.settings.tls
        async with dialled(url, self._identity, tls, self._transport, self._tcp) as channel:
            return await self._run_session(channel, url)

    async def _run_session(self, channel: ByteChannel, name: str) -> bool:
        """Run a session. Returns whether the peer's handshake arrived."""
        if (refusal := self._judge(channel.principal)) is not None:
            logger.warning("%s: no session: %s", name, refusal.text)
            self.metrics.refused["identity"] += 1
            channel.abort(refusal.text)
            return False
        principal = channel.principal.name
        budget = self._budgets.begin(principal, time.monotonic())
        if budget is None:
            self.metrics.refused["overloaded"] += 1
            self._log.warning("%s: not served: too many sessions", name)
            channel.abort("too many sessions")
            return False
        try:
            with calling(channel.remote_address[0], principal):
                return await self._speak_within(budget, channel, name)
        finally:
            self._budgets.end(principal)

    async def _speak_within(self, budget: ReplicaBudget, channel: ByteChannel, name: str) -> bool:
        self._numbers += 1
        try:
            if not self.shared.tail.reaches_back_to(self.shared.store.packets):
                raise TailTooLong("the job chotki is behind by more live packets than are kept here")
            connection = ReplicaConnection(self.shared, channel, self._numbers, name, budget)
        except (StoreIncomplete, TailTooLong) as error:
            await self._turn_away(channel, name, error)
            return False
        self.connections[connection.number] = connection
        self.metrics.connections += 1
        self.metrics.connections_total += 1
        self.metrics.sessions_started += 1
        try:
            await connection.run()
        finally:
            del self.connections[connection.number]
            self.metrics.connections -= 1
            self._count_end(connection)
            channel.abort("the session is over")
            self.reports.forget(connection)
        return connection.session.peer is not None

    def _count_end(self, connection: ReplicaConnection) -> None:
        metrics = self.metrics
        if connection.refusal is not None:
            metrics.sessions_failed[connection.refusal.code] += 1
            metrics.closed["protocol"] += 1
        elif connection.is_lost:
            metrics.sessions_left += 1
        else:
            metrics.sessions_done += 1

    async def _turn_away(self, channel: ByteChannel, name: str, error: ConnectorError) -> None:
        """Refuse a session for now and send the reason; the peer tries again later."""
        self.metrics.refused["not_ready"] += 1
        self._log.warning("%s: not served: %s", name, error)
        self.reports.turned_away(self.shared, channel, self._numbers, name, error)
        with contextlib.suppress(TransportError):
            await channel.write(write_bye(Id(self.shared.source.src, 0), error.code))
            await channel.close()

    # Changes of others.

    def relay(self, packets: Sequence[RelayedPacket]) -> None:
        """Wake the connections after packets of `chotki.packets` were added to the tail."""
        self.metrics.packets_out += len(packets)
        if self._shared is None:
            return  # packets that are read before the start
        own = self.shared.source
        for packet in packets:
            if packet.src == own.src:
                own.raise_to(packet.pro)
        for connection in tuple(self.connections.values()):
            connection.wake()

    def epoch(self, mark: EpochRecord) -> None:
        """Note that the store has reached a new epoch."""
        self._newest = mark
        self._moved_on.set()

    async def follow_epochs(self) -> None:
        """After each epoch, let connections send syncs, and drop the tail before it. Runs until cancelled."""
        while True:
            await self._moved_on.wait()
            self._moved_on.clear()
            mark, shared = self._newest, self.shared
            assert mark is not None, "an epoch set the event"
            await shared.tail.until_at(dict(mark.packets))
            shared.limits.epoch()
            for connection in tuple(self.connections.values()):
                connection.epoch(mark, time.monotonic())
            shared.tail.forget(dict(mark.packets))

    async def write_reports(self) -> None:
        """Write the reports about sessions until cancelled."""
        await self.reports.run(self.shared, lambda: tuple(self.connections.values()))

    def measured(self) -> ChotkiMetrics:
        """Return the current counts. For any thread."""
        metrics, connections = self.metrics, tuple(self.connections.values())
        metrics.staged = sum(connection.publisher.waiting for connection in connections)
        metrics.staged_bytes = sum(connection.publisher.waiting_bytes for connection in connections)
        metrics.unsent_bytes = sum(connection.queued_bytes for connection in connections)
        metrics.waiting_s = max((connection.publisher.waiting_s() for connection in connections), default=0.0)
        now_ms = steady_ms()
        metrics.peer_lag_s = (
            max((connection.lag.oldest_ms(now_ms) for connection in connections), default=0) / 1000
        )
        progress = [connection.progress() for connection in connections]
        metrics.sent = _sum(sent for sent, _ in progress)
        metrics.taken = _sum(taken for _, taken in progress)
        return metrics

    def endings(self) -> Sequence[Ending]:
        """Return functions that each end one session with a B record, after which replicas call again."""
        return [connection.close for connection in self.connections.values()]

    async def finish(self) -> None:
        """End every session, and wait until Kafka has acknowledged their changes."""
        connections = tuple(self.connections.values())
        for end in self.endings():
            end()
        await asyncio.gather(*(connection.publisher.until_empty() for connection in connections))


def _sum(several: Iterable[Progress]) -> Progress:
    return Progress(*map(sum, zip(NO_PROGRESS, *several, strict=True)))
