"""The door of an edge over QUIC: connections of `culm/dag/1`, whose ACK 0 says that Kafka has it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from culm_connectors.dag.edge.access import EdgeAccess
from culm_connectors.dag.edge.edge_folder import Arrivals
from culm_connectors.dag.edge.metrics import DagMetrics
from culm_connectors.dag.edge.quic.budgeted_stream import BudgetedStream
from culm_connectors.dag.edge.quic.peer_view import PeerView
from culm_connectors.dag.edge.quic.tokens import ShownTokens
from culm_connectors.dag.edge.room import EdgeRoom
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.session import DagSession
from culm_connectors.edge.budgets import PrincipalBudget, RememberedBudgets
from culm_connectors.edge.fair_turns import calling
from culm_connectors.transport import CloseCode
from culm_connectors.transport.interface import Connection, ReceiveStream
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import (
    ExchangeEvent,
    HelloReceived,
    NodesReceived,
    ShardSpooled,
    TokenReceived,
)
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.dag.wire.messages import AckStatus

_LOGGER = logging.getLogger(__name__)
_OPEN_TIMEOUT_S: Final = 30.0
_Results = list[tuple[Cid, AckStatus, str | None]]


@dataclass(slots=True, eq=False)
class _Caller:
    """One connection."""

    connection: Connection
    exchange: Exchange
    session: DagSession
    shown: ShownTokens
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class DagQuicDoor:
    """Serves whoever calls, over one room."""

    def __init__(
        self, room: EdgeRoom, settings: DagEdgeSettings, access: EdgeAccess, metrics: DagMetrics
    ) -> None:
        self._room = room
        self._settings = settings
        self._access = access
        self._metrics = metrics
        self._budgets = RememberedBudgets[bytes, PrincipalBudget](
            lambda now_s: PrincipalBudget(settings, now_s)
        )
        self._view = PeerView(room.folder)
        self._callers: dict[DagSession, _Caller] = {}
        self._loop = asyncio.get_running_loop()
        self._is_finishing = False
        room.listeners.append(self._offer)

    async def serve(self, connection: Connection) -> None:
        """Speak with a peer that has called."""
        key = connection.peer_id
        budget = None if self._is_finishing else self._budgets.begin(key, time.monotonic())
        if budget is None:
            self._metrics.refused["overloaded"] += 1
            connection.abort(CloseCode.OVERLOADED, "too many connections")
            return
        self._metrics.connections += 1
        self._metrics.connections_total += 1
        try:
            stream = await self._stream(connection)
            if stream is None or stream.send is None:
                return
            shown = ShownTokens(self._room.folder)
            exchange = self._exchange(connection.peer_id, shown)
            received = BudgetedStream(stream, budget, self._room.until_allowed)
            with calling(connection.remote_address[0], key.hex()):
                session = DagSession(
                    exchange, stream.send, received, self._call, self._understood, self._take_in
                )
                await self._speak(_Caller(connection, exchange, session, shown))
            self._metrics.bytes_in += received.received_bytes
            self._metrics.bytes_out += exchange.sent_bytes
        finally:
            self._metrics.connections -= 1
            self._budgets.end(key)

    async def _stream(self, connection: Connection) -> ReceiveStream | None:
        """The stream that the caller opens; None: it opened none, and is gone."""
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                stream = await connection.accept_stream()
        except TimeoutError:
            connection.abort(CloseCode.PROTOCOL, "no stream was opened")
            return None
        if stream.send is None:
            connection.abort(CloseCode.PROTOCOL, "a stream in one direction")
            return None
        return stream

    def _exchange(self, peer: bytes, shown: ShownTokens) -> Exchange:
        verdict = self._room.verdict
        settings = ExchangeSettings(
            verdict.policy,
            verdict.digest,
            spaces=tuple(bytes.fromhex(space) for space in self._settings.spaces),
            legacy=verdict.legacy,
            hashes=frozenset(verdict.hashes),
        )
        access = self._access.of(peer.hex(), shown.opens, self._room.folder.blocked)
        return Exchange(self._view, settings, peer, access=access)

    async def _speak(self, caller: _Caller) -> None:
        session, connection = caller.session, caller.connection
        self._callers[session] = caller
        try:
            await session.run()
        finally:
            del self._callers[session]
            for task in caller.tasks:
                task.cancel()
            await asyncio.gather(*caller.tasks, return_exceptions=True)
            await self._call(caller.exchange.close)
            if isinstance(session.error, DagError):
                self._metrics.closed["protocol"] += 1
                self._room.refusals.violation(session.error.code, str(session.error), connection.peer_id)
                connection.abort(CloseCode.PROTOCOL, session.error.code)
            elif session.error is not None:
                _LOGGER.debug("%s: %s", connection.peer_id.hex(), session.error)
            await connection.close()

    async def _call(self, step: Callable[[], Any]) -> Any:
        return await self._room.work(lambda _: step())

    async def _take_in(self, step: Callable[[], Any]) -> Any:
        return await self._room.work(lambda _: step(), metered=True)

    # What comes, in the thread of the folder.

    def _understood(self, session: DagSession, events: list[ExchangeEvent]) -> None:
        caller = self._callers.get(session)
        if caller is None:
            return
        for event in events:
            match event:
                case NodesReceived():
                    self._take(caller, event)
                case ShardSpooled():
                    self._later(caller, lambda event=event: self._accept(caller, event))  # type: ignore[misc]
                case TokenReceived():
                    self._open(caller, event)
                case HelloReceived():
                    if event.policy != self._room.verdict.policy:
                        peer = caller.connection.peer_id.hex()
                        _LOGGER.info("%s judges by the policy %s", peer, event.policy)

    def _take(self, caller: _Caller, event: NodesReceived) -> None:
        self._room.folder.arriving_by(caller)
        taken = self._room.take(event.space, [block for _, block in event.blocks], caller.connection.peer_id)
        now: _Results = []
        waiting: _Results = []
        numbers: list[int] = []
        for (cid, _), one in zip(event.blocks, taken, strict=True):
            (waiting if one.waits_for else now).append((cid, one.outcome.status, one.outcome.code))
            numbers += one.waits_for
        self._metrics.nodes_in += sum(one.outcome.status is AckStatus.DURABLE for one in taken)
        if now:
            caller.exchange.settle(event.space, now)
        if waiting:
            self._later(caller, lambda: self._settle_behind(caller, event.space, waiting, numbers))

    def _open(self, caller: _Caller, event: TokenReceived) -> None:
        caller.shown.add(event.space, event.cid, event.block)
        self._understood(caller.session, caller.exchange.access_changed(event.space))

    def _offer(self, arrived: Arrivals) -> None:
        """Tell callers what is new, but for the one who has brought it."""
        for space in arrived.nodes.keys() | arrived.shards.keys():
            if not self._callers:
                return
            nodes, shards = arrived.nodes.get(space, []), arrived.shards.get(space, [])
            folder = self._room.folder
            dag_heads = [cid for cid in folder.dag_heads(space) if cid in nodes] if nodes else []
            publish_heads = [cid for cid in folder.publish_heads(space) if cid in nodes] if nodes else []
            for caller in tuple(self._callers.values()):
                if caller is arrived.by:
                    continue
                caller.exchange.offer(space, dag_heads, publish_heads, shards)
                caller.session.wake()

    # What has to wait, on the loop.

    def _later(self, caller: _Caller, begin: Callable[[], Any]) -> None:
        self._loop.call_soon_threadsafe(partial(self._begin, caller, begin))

    def _begin(self, caller: _Caller, begin: Callable[[], Any]) -> None:
        if caller.session in self._callers:
            task: asyncio.Task[None] = self._loop.create_task(begin())
            caller.tasks.add(task)
            task.add_done_callback(caller.tasks.discard)

    async def _settle_behind(
        self, caller: _Caller, space: bytes, results: _Results, numbers: list[int]
    ) -> None:
        await self._room.until_acknowledged(numbers)
        await self._settle(caller, space, results)

    async def _settle(self, caller: _Caller, space: bytes, results: _Results) -> None:
        await self._room.work(lambda _: caller.exchange.settle(space, results))
        caller.session.wake()

    async def _accept(self, caller: _Caller, event: ShardSpooled) -> None:
        part = await self._room.accept(event.shard, caller.connection.peer_id)
        status = AckStatus.LATER if part.status is AckStatus.NOT_HERE else part.status
        self._metrics.shards_in += status is AckStatus.DURABLE
        await self._settle(caller, event.space, [(event.shard, status, part.code)])

    # From outside.

    def judge_again(self) -> None:
        """Other rules are in force: who may do nothing any more is left, the others are judged by them."""
        rules = self._access
        for caller in tuple(self._callers.values()):
            if not rules.may_stay(caller.connection.peer_id.hex()):
                caller.connection.abort(CloseCode.NORMAL, "no longer allowed")

    async def finish(self) -> None:
        """End every connection."""
        self._is_finishing = True
        callers = tuple(self._callers.values())
        await asyncio.gather(*(caller.connection.close() for caller in callers))
