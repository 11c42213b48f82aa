"""The door of an edge over QUIC: connections of `culm/dag/1` whose ACK 0 means that Kafka has the data."""

from __future__ import annotations

import time
from collections.abc import Sequence

from culm_connectors.dag.connections import DagConnections
from culm_connectors.dag.edge.access import EdgeAccess
from culm_connectors.dag.edge.metrics import DagMetrics
from culm_connectors.dag.edge.service import EdgeDagService
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.tokens import ShownTokens
from culm_connectors.edge.budgets import PrincipalBudget, RememberedBudgets
from culm_connectors.edge.serving import ConnectedPeer, Ending, LinkEnded, ServedLink, ServedLinks
from culm_connectors.transport import CloseCode
from culm_connectors.transport.interface import Connection
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.settings import SpaceAccess


class DagQuicDoor:
    """Serves peers that connect, over one service."""

    def __init__(
        self, service: EdgeDagService, settings: DagEdgeSettings, access: EdgeAccess, metrics: DagMetrics
    ) -> None:
        self._service = service
        self._spaces = tuple(bytes.fromhex(space) for space in settings.spaces)
        self._access = access
        self._metrics = metrics
        self._budgets = RememberedBudgets[bytes, PrincipalBudget](
            lambda now_s: PrincipalBudget(settings, now_s)
        )
        self.connections = DagConnections(service, self._access_of, on_violation=self._report)
        self._links = ServedLinks[ServedLink](metrics, id, lambda link: self._budgets.end(link.remote))

    async def serve(self, connection: Connection) -> None:
        """Serve a peer that has connected."""
        budget = self._budgets.begin(connection.peer_id, time.monotonic())
        if budget is None:
            self._links.refuse(connection, CloseCode.OVERLOADED, "too many connections")
            return
        link = ServedLink(connection)
        self._links.begin(link)
        await self._links.serve(link, lambda link: self._speak(link, budget))

    async def _speak(self, link: ServedLink, budget: PrincipalBudget) -> LinkEnded:
        dag_connection = await self.connections.accept(link.connection, self._spaces)
        if dag_connection is not None:
            dag_connection.progress.listed = 0
            dag_connection.pause_s = lambda size: budget.wait_s(time.monotonic(), size)
            await self.connections.run(dag_connection)
            self._metrics.bytes_in += dag_connection.received_bytes
            self._metrics.bytes_out += dag_connection.sent_bytes
        return LinkEnded(CloseCode.NORMAL)

    def _access_of(self, peer: bytes, shown: ShownTokens) -> SpaceAccess:
        return self._access.of(peer.hex(), shown.opens, self._service.folder.blocked)

    def _report(self, error: DagError, peer: bytes) -> None:
        self._metrics.closed["protocol"] += 1
        self._service.refusals.violation(error.code, str(error), peer)

    # Called by the protocol.

    def judge_again(self) -> None:
        """Close the connections of principals that the new rules no longer allow; keep the others."""
        for link in tuple(self._links.open.values()):
            if not self._access.may_stay(link.remote.hex()):
                self._links.end(link, CloseCode.REVOKED, "no longer allowed")

    def peers(self) -> Sequence[ConnectedPeer]:
        """Return the connected peers; from any thread."""
        return self._links.peers()

    def endings(self, reason: str) -> Sequence[Ending]:
        """Return functions that each end one connection."""
        return self._links.endings(reason)

    async def finish(self, reason: str) -> None:
        """Close every connection."""
        await self._links.finish(reason)
