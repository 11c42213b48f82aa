"""The door of an edge over QUIC: connections of `culm/dag/1`, whose ACK 0 says that Kafka has it."""

from __future__ import annotations

import asyncio
import time

from culm_connectors.dag.connections import DagConnections
from culm_connectors.dag.edge.access import EdgeAccess
from culm_connectors.dag.edge.metrics import DagMetrics
from culm_connectors.dag.edge.room import EdgeRoom
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.tokens import ShownTokens
from culm_connectors.edge.budgets import PrincipalBudget, RememberedBudgets
from culm_connectors.transport import CloseCode
from culm_connectors.transport.interface import Connection
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.settings import SpaceAccess


class DagQuicDoor:
    """Serves whoever calls, over one room."""

    def __init__(
        self, room: EdgeRoom, settings: DagEdgeSettings, access: EdgeAccess, metrics: DagMetrics
    ) -> None:
        self._room = room
        self._spaces = tuple(bytes.fromhex(space) for space in settings.spaces)
        self._access = access
        self._metrics = metrics
        self._budgets = RememberedBudgets[bytes, PrincipalBudget](
            lambda now_s: PrincipalBudget(settings, now_s)
        )
        self._is_finishing = False
        self.connections = DagConnections(room, self._access_of, on_violation=self._report)

    async def serve(self, connection: Connection) -> None:
        """Speak with a peer that has called."""
        key, metrics = connection.peer_id, self._metrics
        budget = None if self._is_finishing else self._budgets.begin(key, time.monotonic())
        if budget is None:
            metrics.refused["overloaded"] += 1
            connection.abort(CloseCode.OVERLOADED, "too many connections")
            return
        metrics.connections += 1
        metrics.connections_total += 1
        try:
            one = await self.connections.accept(connection, self._spaces)
            if one is None:
                return
            one.progress.listed = 0
            one.pause_s = lambda size: budget.wait_s(time.monotonic(), size)
            await self.connections.run(one)
            metrics.bytes_in += one.received_bytes
            metrics.bytes_out += one.sent_bytes
        finally:
            metrics.connections -= 1
            self._budgets.end(key)

    def _access_of(self, peer: bytes, shown: ShownTokens) -> SpaceAccess:
        return self._access.of(peer.hex(), shown.opens, self._room.folder.blocked)

    def _report(self, error: DagError, peer: bytes) -> None:
        self._metrics.closed["protocol"] += 1
        self._room.refusals.violation(error.code, str(error), peer)

    # From outside.

    def judge_again(self) -> None:
        """Other rules are in force: who may do nothing any more is left, the others are judged by them."""
        for one in tuple(self.connections.open):
            if not self._access.may_stay(one.peer.hex()):
                one.connection.abort(CloseCode.NORMAL, "no longer allowed")

    async def finish(self) -> None:
        """End every connection."""
        self._is_finishing = True
        await asyncio.gather(*(one.connection.close() for one in tuple(self.connections.open)))
