"""The status document of a connector: what is served and where, who is connected, lag, latest progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from culm_connectors.edge.draining import Draining
from culm_connectors.edge.health import Health, Running
from culm_connectors.edge.metrics import connection_counts
from culm_connectors.edge.protocol import EdgeProtocol
from culm_connectors.edge.protocol_metrics import ProtocolMetrics, SessionMetrics
from culm_connectors.url import address_text
from culm_topics.process_status import ProcessStatus

MAX_LISTED_PEERS: Final = 50
"""Peers that are listed for each protocol; `connections` counts all."""


class ConnectorStatus:
    """Computes the document; may be called from any thread.

    `state` returns what the whole process is doing, or None; `running` returns None until the protocols are
    open; `metrics_port` returns the port of the metrics, if there is one.
    """

    def __init__(
        self,
        process: ProcessStatus,
        directory: Path,
        peer_id: bytes,
        health: Health,
        *,
        state: Callable[[], str | None],
        running: Callable[[], Running | None],
        metrics_port: Callable[[], int | None],
        draining: Draining,
    ) -> None:
        self.process = process
        self._directory = directory.absolute()
        self._peer_id = peer_id
        self._health = health
        self._state = state
        self._running = running
        self._metrics_port = metrics_port
        self._draining = draining

    def document(self) -> Mapping[str, Any]:
        """Return the current document."""
        reasons = self._health.why_not_ready()
        progress_s = self._health.last_progress_s()
        running = self._running()
        protocols = {} if running is None else _protocols(running)
        connections = sum(protocol["connections"] for protocol in protocols.values())
        return self.process.document(
            self._state() or "running",
            reasons,
            directory=str(self._directory),
            peer_id=self._peer_id.hex(),
            metrics_port=self._metrics_port(),
            last_progress_ms=None if progress_s is None else int(progress_s * 1000),
            in_flight_records=0 if running is None else running.producer.in_flight[0],
            drain=self._draining.document(connections),
            protocols=protocols,
        )


def _protocols(running: Running) -> dict[str, Any]:
    protocols = dict(running.protocols)
    measured = {name: protocol.measured() for name, protocol in protocols.items()}
    refused, closed = connection_counts(running, measured)
    addresses = running.doors.where()
    return {
        name: _protocol(
            protocol,
            measured[name],
            {door.name: addresses[door.name] for door in protocol.doors if door.name in addresses},
            refused[name],
            closed[name],
            running.lag(protocol),
        )
        for name, protocol in protocols.items()
    }


def _protocol(
    protocol: EdgeProtocol,
    metrics: ProtocolMetrics,
    doors: Mapping[str, str],
    refused: Mapping[str, int],
    closed: Mapping[str, int],
    lag: Mapping[str, int] | None,
) -> dict[str, Any]:
    reasons, status = list(protocol.why_not_ready()), protocol.status()
    return {
        "ready": not reasons,
        "reasons": reasons,
        "doors": {**doors, **status.urls},
        "connections": metrics.connections,
        "connections_total": metrics.connections_total,
        "refused": dict(refused),
        "closed": dict(closed),
        "peers": [
            {"peer": peer.name, "address": None if peer.address is None else address_text(*peer.address)}
            for peer in status.peers[:MAX_LISTED_PEERS]
        ],
        "bytes_in": metrics.bytes_in,
        "bytes_out": metrics.bytes_out,
        "staged_records": metrics.staged,
        "rejected": dict(metrics.rejects),
        "sessions_failed": dict(metrics.sessions_failed) if isinstance(metrics, SessionMetrics) else None,
        "lag": lag,
    }
