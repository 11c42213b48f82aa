"""Connections of the exchange protocol over one service (reference 6), in either direction.

The service validates and keeps what peers send. Peers receive the outcome once it is committed and, at an
edge, once Kafka has it; the other peers are offered what is new.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from culm_connectors.dag.errors import DagSyncError
from culm_connectors.dag.progress import OnProgress, SyncProgress
from culm_connectors.dag.service import DagService
from culm_connectors.dag.store.outcomes import FolderChanges
from culm_connectors.dag.tokens import ShownTokens
from culm_connectors.edge.fair_turns import TURN_S, calling
from culm_connectors.edge.pump import Pump
from culm_connectors.transport import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import Connection, ReceiveStream
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, DagUnexpected
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import (
    DagAcknowledged,
    ExchangeEvent,
    HelloReceived,
    NodesReceived,
    ShardSpooled,
    TokenReceived,
)
from culm_models.dag.exchange.settings import ExchangeSettings, SpaceAccess, open_to_all
from culm_models.dag.wire.messages import AckStatus
from culm_models.errors import CulmError

_LOGGER = logging.getLogger(__name__)
_OPEN_TIMEOUT_S: Final = 30.0
_READ_BYTES: Final = 1_048_576
_WRITE_BYTES: Final = 1_048_576
_BACKLOG_BYTES: Final = 4_194_304
_BACKLOG_TIMEOUT_S: Final = 60.0
_Results = list[tuple[Cid, AckStatus, str | None]]
AccessOf = Callable[[bytes, ShownTokens], SpaceAccess]
"""Returns a key's access to spaces, with the UCANs that it has shown on its connection."""


def log_violation(error: DagError, peer: bytes) -> None:
    """Log the violation that ended a connection."""
    _LOGGER.info("%s: %s: %s", peer.hex(), error.code, error)


def allow_all(peer: bytes, shown: ShownTokens) -> SpaceAccess:
    """Allow every key everything."""
    return open_to_all


class DagConnection:
    """One connection: a `ByteMachine` with one lane, and the handling of its events."""

    lanes: ClassVar = 1

    def __init__(
        self,
        connections: DagConnections,
        connection: Connection,
        stream: ReceiveStream,
        exchange: Exchange,
        shown: ShownTokens,
    ) -> None:
        self.connection = connection
        self.exchange = exchange
        self.progress = SyncProgress()
        self.on_progress: OnProgress | None = None
        self.pause_s: Callable[[int], float] = lambda size: 0.0
        """Returns how long to pause reading after so many bytes, in seconds."""
        self.moved_at_s = time.monotonic()
        self.moved = asyncio.Event()
        """Is set whenever data arrives or is settled."""
        self.error: BaseException | None = None
        """Error that ended the connection; None after an orderly end."""
        self.received_bytes = self.sent_bytes = 0
        self._connections = connections
        self._service = service = connections.service
        self._stream = stream
        self._shown = shown
        self._due: list[tuple[bytes, _Results]] = []
        """Outcomes of nodes, by space, that are sent to the other end after the next commit."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.pump = Pump(self, lambda step: service.work(lambda _: step()), self._take_in)

    @property
    def peer(self) -> bytes:
        """Return the other end's proven key."""
        return self.connection.peer_id

    def wake(self) -> None:
        """Wake the sender, as there may be something to send. For any thread."""
        self._loop.call_soon_threadsafe(self.pump.wake)

    def why_ended(self) -> CulmError:
        """Return why the connection ended."""
        if isinstance(self.error, TransportError):
            return self.error
        return DagSyncError(f"the connection ended: {self.error or 'the other end closed it'}")

    async def close(self) -> None:
        """Cancel the connection's tasks and close the exchange."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._service.work(lambda _: self.exchange.close())

    # The machine and its one lane, as in `ByteMachine`.

    @property
    def dropped(self) -> DagError | None:
        """Return the violation that ended the exchange, if any."""
        return self.exchange.dropped

    async def read(self, lane: int) -> bytes:
        """Return the next bytes of the stream."""
        data = await self._stream.read(_READ_BYTES)
        self.received_bytes += len(data)
        return data

    def receive(self, lane: int, data: bytes) -> Generator[None, None, None]:
        """Process received bytes, one message per step."""
        for events in self.exchange.receive_steps(data):
            self._on_events(events)
            yield

    async def until_ready(self, lane: int, size: int) -> bool:
        """Wait until more may be received.

        A peer that does not read its answers cannot ask further questions.
        """
        self.pump.wake()
        pause_s = self.pause_s(size)
        try:
            async with asyncio.timeout(_BACKLOG_TIMEOUT_S):
                await self.pump.wait_until(lambda: self.exchange.waiting_bytes <= _BACKLOG_BYTES)
        except TimeoutError:
            raise DagUnexpected("the other end does not read its messages") from None
        await asyncio.sleep(pause_s)
        await self._service.until_allowed()
        return False

    async def capacity(self, lane: int) -> int:
        """Return the write size: `write` waits for capacity, so there is capacity once it returns."""
        return _WRITE_BYTES

    def take(self, lane: int, capacity: int) -> tuple[bytes, bool]:
        """Return frames to send, collected for at most one time slice, and whether there are any."""
        frames: list[bytes] = []
        size = 0
        until_s = time.monotonic() + TURN_S
        while size < capacity and time.monotonic() < until_s and (frame := self.exchange.next_frame()):
            frames.append(frame)
            size += len(frame)
        return frames[0] if len(frames) == 1 else b"".join(frames), bool(frames)

    async def write(self, lane: int, data: bytes) -> None:
        """Send bytes."""
        assert self._stream.send is not None, "it is bidirectional"
        self.sent_bytes += len(data)
        await self._stream.send.write(data)

    # Received data, in the folder's thread.

    async def _take_in(self, step: Callable[[], Any]) -> Any:
        def turn(_: object) -> Any:
            result = step()
            self._service.commit(self)
            due, self._due = self._due, []
            for space, results in due:
                self.exchange.settle(space, results)
            self._move()
            return result

        return await self._service.work(turn, metered=True)

    def _on_events(self, events: list[ExchangeEvent]) -> None:
        for event in events:
            match event:
                case NodesReceived():
                    self._take_nodes(event)
                case ShardSpooled():
                    self._spawn(partial(self._accept, event))
                case TokenReceived():
                    self._shown.add(event.space, event.cid, event.block)
                    self._on_events(self.exchange.access_changed(event.space))
                case DagAcknowledged():
                    self.progress.count(event)
                case HelloReceived():
                    if event.policy != self._service.verdict.policy:
                        _LOGGER.info("%s judges by the policy %s", self.peer.hex(), event.policy)

    def _take_nodes(self, event: NodesReceived) -> None:
        now: _Results = []
        waiting: _Results = []
        numbers: list[int] = []
        taken = self._service.take(event.space, [block for _, block in event.blocks], self.peer)
        for (cid, _), result in zip(event.blocks, taken, strict=True):
            (waiting if result.waits_for else now).append((cid, result.outcome.status, result.outcome.code))
            numbers += result.waits_for
        new = self.progress.list_results([*now, *waiting])
        self.progress.nodes += new
        self._connections.nodes_in += new
        self._due.append((event.space, now))
        if waiting:
            self._spawn(partial(self._settle_behind, event.space, waiting, numbers))

    def _settle(self, space: bytes, results: _Results) -> None:
        self.exchange.settle(space, results)
        self.wake()
        self._move()

    def _move(self) -> None:
        """Update the progress after data arrived or was settled."""
        exchange, progress = self.exchange, self.progress
        progress.received_bytes, progress.sent_bytes = exchange.received_bytes, exchange.sent_bytes
        if self.on_progress is not None:
            progress.wanted_shards, progress.wanted_bytes = exchange.wanted_shards
        self._loop.call_soon_threadsafe(self._report)

    # Tasks that wait, on the event loop.

    def _spawn(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        def run() -> None:
            if self in self._connections.open:
                task = self._loop.create_task(begin())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(run)

    async def _settle_behind(self, space: bytes, results: _Results, numbers: list[int]) -> None:
        await self._service.until_acknowledged(numbers)
        await self._service.work(lambda _: self._settle(space, results))

    async def _accept(self, event: ShardSpooled) -> None:
        part = await self._service.accept(event.shard, self.peer, by=self)
        status = AckStatus.LATER if part.status is AckStatus.NOT_HERE else part.status
        results: _Results = [(event.shard, status, part.code)]
        new = self.progress.list_results(results)
        self.progress.shards += new
        self._connections.shards_in += new
        await self._service.work(lambda _: self._settle(event.space, results))

    def _report(self) -> None:
        self.moved_at_s = time.monotonic()
        self.moved.set()
        if self.on_progress is not None:
            self.on_progress(self.progress)


class DagConnections:
    """All connections over one service. For one event loop."""

    def __init__(
        self,
        service: DagService,
        access: AccessOf = allow_all,
        *,
        takes_shards: bool = True,
        on_violation: Callable[[DagError, bytes], None] = log_violation,
    ) -> None:
        """`on_violation` is called when a connection is ended because its peer broke a rule."""
        self.service = service
        self.open: set[DagConnection] = set()
        self.nodes_in = self.shards_in = 0
        """New nodes and shards received from peers."""
        self._access = access
        self._takes_shards = takes_shards
        self._on_violation = on_violation
        service.listeners.append(self._offer)

    def begin(self, connection: Connection, stream: ReceiveStream, spaces: Sequence[bytes]) -> DagConnection:
        """Create a connection over a bidirectional stream; nothing is sent before `run`."""
        verdict = self.service.verdict
        settings = ExchangeSettings(
            verdict.policy,
            verdict.digest,
            spaces=tuple(spaces),
            legacy=verdict.legacy,
            hashes=frozenset(verdict.hashes),
            takes_shards=self._takes_shards,
        )
        peer, shown = connection.peer_id, ShownTokens(self.service.folder)
        exchange = Exchange(self.service.folder, settings, peer, access=self._access(peer, shown))
        return DagConnection(self, connection, stream, exchange, shown)

    async def accept(self, connection: Connection, spaces: Sequence[bytes]) -> DagConnection | None:
        """Wait for the stream of a peer that has connected; None if it opened none and was disconnected."""
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                stream = await connection.accept_stream()
        except TimeoutError:
            connection.abort(CloseCode.PROTOCOL, "no stream was opened")
            return None
        if stream.send is None:
            connection.abort(CloseCode.PROTOCOL, "a stream in one direction")
            return None
        return self.begin(connection, stream, spaces)

    async def run(self, link: DagConnection) -> None:
        """Exchange until either end closes."""
        connection = link.connection
        self.open.add(link)
        with calling(connection.remote_address[0], link.peer.hex()):
            try:
                link.error = await link.pump.run()
            finally:
                self.open.discard(link)
                await link.close()
                if isinstance(link.error, DagError):
                    self._on_violation(link.error, link.peer)
                    connection.abort(CloseCode.PROTOCOL, link.error.code)
                elif link.error is not None:
                    _LOGGER.debug("%s: %s", link.peer.hex(), link.error)
                await connection.close()

    def _offer(self, changes: FolderChanges, by: object) -> None:
        """Offer new data to all connections but its origin; in the folder's thread."""
        # The loop adds and removes connections meanwhile; a new connection offers all that is here by itself.
        others = [link for link in tuple(self.open) if link is not by]
        for space in changes.nodes.keys() | changes.shards.keys() if others else ():
            folder, nodes, shards = (
                self.service.folder,
                changes.nodes.get(space, []),
                changes.shards.get(space, []),
            )
            dag_heads, publish_heads = folder.queries.heads_among(space, nodes)
            for link in others:
                link.exchange.offer(space, dag_heads, publish_heads, shards)
                link.wake()
