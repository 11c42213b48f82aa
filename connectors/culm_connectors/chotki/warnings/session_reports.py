"""What an edge tells of its sessions: lines of `chotki.sessions`, warnings by code, and refused bytes.

A warning refuses nothing (reference 4.6): it is counted, logged, and a line in `chotki.sessions` with its
code, of each code and session at most one in ten seconds. Bytes that are refused go to `rejected`, as many a
minute as the settings allow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.host import EdgeShared
from culm_connectors.chotki.metrics import ChotkiMetrics
from culm_connectors.chotki.warnings.events import Warned
from culm_connectors.errors import ConnectorError
from culm_connectors.kafka import ProducerRecord
from culm_connectors.transport.interface import ByteChannel
from culm_models.chotki import events
from culm_topics.chotki.records import SessionRecord, session_key
from culm_topics.records import rejection

logger = logging.getLogger(__name__)

_MOST_WAITING: Final = 1_000
_WARNING_PAUSE_S: Final = 10.0
_MOST_TEXT_BYTES: Final = 1_000


class SessionReports:
    """Tells of all sessions of an edge; `run` writes it, and what Kafka is too slow for is left out."""

    def __init__(self, metrics: ChotkiMetrics) -> None:
        self._metrics = metrics
        self._waiting: asyncio.Queue[tuple[str, ProducerRecord]] = asyncio.Queue(_MOST_WAITING)
        self._warned_s: dict[tuple[int, str], float] = {}

    def event(self, connection: ReplicaConnection, event: events.SessionEvent) -> None:
        """Something happened on a connection."""
        metrics = self._metrics
        match event:
            case events.PacketApplied():
                metrics.packets_in += 1
            case events.SyncCommitted(fields=fields):
                metrics.syncs_in += 1
                metrics.fields_in += fields
                self.session(connection)
            case events.Refused(code=code, message=message, record=record):
                metrics.rejects[code] += 1
                logger.warning("%s %s: %s: %s", connection.name, connection.traces, code, message)
                self._reject(connection, code, message, record)
                self.session(connection)
            case events.PeerKnown():
                logger.debug("%s %s: %s", connection.name, connection.traces, event)
                self.session(connection)
            case events.Quarantined(id=id, letter=letter, value=value, code=code):
                self._reject(connection, code, f"field {id} {letter} of a diff", value)
                self._warn(connection, code, f"field {id} {letter} of a diff was left out")
            case events.OwnSource(id=id):
                self._warn(connection, "chotki.own_source", f"{id} came, which this run did not give")
            case events.Loop(t=t):
                self._warn(connection, "chotki.loop", f"the own sync {t} came round")
            case events.Unwanted(letter=letter):
                self._warn(connection, "chotki.unwanted", f"a packet {letter} that the modes leave out")
            case events.SyncDropped(t=t, code=code):
                self._warn(connection, "chotki.sync_dropped", f"the sync {t} was forgotten: {code}")
            case Warned(code=code, message=message):
                self._warn(connection, code, message)
            case events.ByeReceived() | events.ConnectionLost() | events.StateEntered():
                logger.debug("%s %s: %s", connection.name, connection.traces, event)

    def session(self, connection: ReplicaConnection, *, code: str = "", reason: str = "") -> None:
        """How a session stands; `code` and `reason` are of a warning, else of its end."""
        session = connection.session
        peer, channel = session.peer, connection.channel.statistics()
        refused = connection.refusal.code if connection.refusal is not None else ""
        record = SessionRecord(
            state=session.state.value,
            peer=peer.t.src if peer is not None else 0,
            address=connection.name,
            mode=session.mode if peer is None else session.mode & peer.mode,
            trace=session.trace,
            peer_trace=peer.trace if peer is not None else b"",
            blocks=connection.progress()[0].blocks_done,
            bytes_in=channel.received_bytes,
            bytes_out=channel.sent_bytes,
            reason=_within(reason or connection.reason),
            code=code or refused,
            time_ms=int(time.time() * 1000),
        )
        key = session_key(connection.bringer.edge, connection.number)
        self._put("chotki.sessions", ProducerRecord(key, record.encode()))

    def turned_away(
        self, shared: EdgeShared, channel: ByteChannel, number: int, name: str, error: ConnectorError
    ) -> None:
        """Somebody was not served."""
        statistics = channel.statistics()
        record = SessionRecord(
            state=events.SessionState.NONE.value,
            peer=0,
            address=name,
            mode=0,
            trace=b"",
            peer_trace=b"",
            blocks=0,
            bytes_in=statistics.received_bytes,
            bytes_out=statistics.sent_bytes,
            reason=_within(str(error)),
            code=error.code,
            time_ms=int(time.time() * 1000),
        )
        self._put("chotki.sessions", ProducerRecord(session_key(shared.edge, number), record.encode()))

    def forget(self, connection: ReplicaConnection) -> None:
        """It is over."""
        self.session(connection)
        for key in [key for key in self._warned_s if key[0] == connection.number]:
            del self._warned_s[key]

    async def run(self, shared: EdgeShared) -> None:
        """Write for ever."""
        while True:
            name, record = await self._waiting.get()
            await shared.producer.send(shared.kafka.topic(name), [record])

    def _warn(self, connection: ReplicaConnection, code: str, message: str) -> None:
        self._metrics.warned[code] += 1
        key, now_s = (connection.number, code), time.monotonic()
        if now_s - self._warned_s.get(key, -_WARNING_PAUSE_S) < _WARNING_PAUSE_S:
            return
        self._warned_s[key] = now_s
        logger.warning("%s %s: %s: %s", connection.name, connection.traces, code, message)
        self.session(connection, code=code, reason=message)

    def _reject(self, connection: ReplicaConnection, code: str, message: str, refused: bytes) -> None:
        if not connection.budget.rejects.take(1, time.monotonic()):
            return
        key = connection.channel.principal.key or None
        detail = f"{message} (from {connection.name}, {connection.traces})"
        record = rejection(code, detail, entry=refused or None, brought_by=key)
        self._put("rejected", ProducerRecord(b"", record.encode()))

    def _put(self, name: str, record: ProducerRecord) -> None:
        if self._waiting.full():
            self._metrics.untold += 1
            return
        self._waiting.put_nowait((name, record))


def _within(text: str) -> str:
    """As much of a text as a record takes."""
    return text.encode("utf-8", "backslashreplace")[:_MOST_TEXT_BYTES].decode("utf-8", "ignore")
