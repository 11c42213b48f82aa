"""Reports of an edge about its sessions: lines of `chotki.sessions`, peers' entries, warnings, refused bytes.

A session has a line when its peer is known, when it is live, after each received sync and when it is over. In
between it has a line every five seconds if anything has changed. At the same interval the entries that the
peer holds go to `chotki.vectors`, and the progress of its diffs goes to the log.

Nothing is refused for a warning (reference 4.6). It is counted, logged, and written as a line of
`chotki.sessions` with its code, at most once in ten seconds per code and session. Refused bytes go to
`rejected`, at most as many records a minute as the settings allow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.errors import UNIQUE_DUPLICATE, Warned
from culm_connectors.chotki.host import EdgeShared
from culm_connectors.chotki.metrics import ChotkiMetrics
from culm_connectors.clock import steady_ms
from culm_connectors.errors import ConnectorError
from culm_connectors.kafka import ProducerRecord
from culm_connectors.rate_limit import LimitedLog
from culm_connectors.transport.interface import ByteChannel
from culm_models.chotki import events
from culm_models.chotki.events import SyncState
from culm_models.chotki.rdx import print_text
from culm_models.chotki.sync.progress import Progress
from culm_models.chotki.unique_values import DuplicateValue, texts
from culm_topics.chotki.records import OpenSyncItem, SessionRecord, session_key, source_key
from culm_topics.records import rejection

logger = logging.getLogger(__name__)
limited = LimitedLog(logger)

_MOST_WAITING: Final = 1_000
_WARNING_PAUSE_S: Final = 10.0
_MOST_TEXT_BYTES: Final = 1_000
_MOST_VALUE: Final = 100
_WATCH_S: Final = 5.0


@dataclass(slots=True)
class _Reported:
    """Counts of a session besides its own state, and its last line."""

    pings: int = 0
    pongs: int = 0
    record: SessionRecord | None = None


class SessionReports:
    """Reports about all sessions of an edge, written by `run`. Reports are dropped if Kafka is too slow."""

    def __init__(self, metrics: ChotkiMetrics) -> None:
        self._metrics = metrics
        self._waiting: asyncio.Queue[tuple[str, ProducerRecord]] = asyncio.Queue(_MOST_WAITING)
        self._reported: defaultdict[int, _Reported] = defaultdict(_Reported)
        self._warned_s: dict[tuple[int, str], float] = {}

    def event(self, connection: ReplicaConnection, event: events.SessionEvent) -> None:
        """Count and report an event of a connection."""
        metrics = self._metrics
        match event:
            case events.PacketApplied():
                metrics.packets_in += 1
            case events.SyncCommitted(fields=fields):
                metrics.syncs_in += 1
                metrics.fields_in += fields
                self.session(connection)
            case events.SessionRefused(code=code, message=message, record=record):
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
            case events.PingReceived():
                self._reported[connection.number].pings += 1
            case events.PongReceived():
                self._reported[connection.number].pongs += 1
            case events.ByeReceived() | events.ConnectionLost() | events.StateEntered():
                logger.debug("%s %s: %s", connection.name, connection.traces, event)
                self._enter(connection)

    def session(self, connection: ReplicaConnection, *, code: str = "", reason: str = "") -> None:
        """Write a line about a session. `code` and `reason` are a warning's, else those of its end."""
        self._write_line(connection, self._record(connection, code, reason))

    def watch(self, connections: Iterable[ReplicaConnection]) -> None:
        """Write a line about each connection that has changed since its last line."""
        for connection in connections:
            _log_progress(connection)
            self._hold(connection)
            record, last = self._record(connection, "", ""), self._reported[connection.number].record
            if last is None:
                continue
            if replace(record, code=last.code, reason=last.reason, time_ms=last.time_ms) != last:
                self._write_line(connection, record)

    def _enter(self, connection: ReplicaConnection) -> None:
        """Write a line when a session becomes live, but not when a ping leaves and enters that state."""
        last = self._reported[connection.number].record
        live = SyncState.LIVE.value
        if last is not None and connection.session.state.value == live and last.state != live:
            self.session(connection)

    def _hold(self, connection: ReplicaConnection) -> None:
        """Report the entries that the peer holds and is missing, if they have changed."""
        peer = connection.session.peer
        # A peer that announces nothing is not a replica: it reads everything once and leaves, like `verify`.
        if peer is None or not peer.vector:
            return
        record = connection.holding(steady_ms())
        if record is not None:
            self._put("chotki.vectors", ProducerRecord(key=source_key(peer.t.src), value=record.encode()))

    def _record(self, connection: ReplicaConnection, code: str, reason: str) -> SessionRecord:
        session, reported = connection.session, self._reported[connection.number]
        peer, channel = session.peer, connection.channel.statistics()
        refused = connection.refusal.code if connection.refusal is not None else ""
        sent, received = connection.progress()
        now_ms = int(time.monotonic() * 1000)
        return SessionRecord(
            state=session.state.value,
            peer=peer.t.src if peer is not None else 0,
            address=connection.name,
            mode=session.mode if peer is None else session.mode & peer.mode,
            trace=session.trace,
            peer_trace=peer.trace if peer is not None else b"",
            bytes_in=channel.received_bytes,
            bytes_out=channel.sent_bytes,
            received=received,
            sent=sent,
            open_syncs=tuple(
                OpenSyncItem(*sync.t, max(0, now_ms - sync.opened_at_ms), sync.bytes)
                for sync in session.open_syncs
            ),
            pings=reported.pings,
            pongs=reported.pongs,
            reason=_within(reason or connection.reason),
            code=code or refused,
            time_ms=int(time.time() * 1000),
        )

    def _write_line(self, connection: ReplicaConnection, record: SessionRecord) -> None:
        self._reported[connection.number].record = record
        key = session_key(connection.origin.edge, connection.number)
        self._put("chotki.sessions", ProducerRecord(key=key, value=record.encode()))

    def turned_away(
        self, shared: EdgeShared, channel: ByteChannel, number: int, name: str, error: ConnectorError
    ) -> None:
        """Write a line about a connection that was not served."""
        statistics = channel.statistics()
        record = SessionRecord(
            state=SyncState.NONE.value,
            peer=0,
            address=name,
            mode=0,
            trace=b"",
            peer_trace=b"",
            bytes_in=statistics.received_bytes,
            bytes_out=statistics.sent_bytes,
            received=Progress(0, 0, 0, 0),
            sent=Progress(0, 0, 0, 0),
            open_syncs=(),
            pings=0,
            pongs=0,
            reason=_within(str(error)),
            code=error.code,
            time_ms=int(time.time() * 1000),
        )
        self._put(
            "chotki.sessions", ProducerRecord(key=session_key(shared.edge, number), value=record.encode())
        )

    def duplicate(self, duplicate: DuplicateValue, connection: ReplicaConnection | None) -> None:
        """Warn of objects that share a value, which Go refuses. `connection` is its origin, if known."""
        value = print_text(duplicate.letter, duplicate.value)[:_MOST_VALUE]
        holders = texts(duplicate.holders)
        text = f"{value} is in field {duplicate.offset} of {holders}, of class {duplicate.class_id}"
        if connection is not None:
            self.event(connection, Warned(UNIQUE_DUPLICATE, text))
            return
        self._metrics.warned[UNIQUE_DUPLICATE] += 1
        limited.warning("%s: %s", UNIQUE_DUPLICATE, text)

    def forget(self, connection: ReplicaConnection) -> None:
        """Write the last reports about a session that is over, and forget it."""
        self._hold(connection)
        self.session(connection)
        del self._reported[connection.number]
        for key in [key for key in self._warned_s if key[0] == connection.number]:
            del self._warned_s[key]

    async def run(self, shared: EdgeShared, connections: Callable[[], Iterable[ReplicaConnection]]) -> None:
        """Watch these connections and write their reports until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_for_ever(connections))
            tasks.create_task(self._write_for_ever(shared))

    async def _watch_for_ever(self, connections: Callable[[], Iterable[ReplicaConnection]]) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            self.watch(connections())

    async def _write_for_ever(self, shared: EdgeShared) -> None:
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
        self._put("rejected", ProducerRecord(key=b"", value=record.encode()))

    def _put(self, name: str, record: ProducerRecord) -> None:
        if self._waiting.full():
            self._metrics.untold += 1
            return
        self._waiting.put_nowait((name, record))


def _log_progress(connection: ReplicaConnection) -> None:
    """Log the progress of a session's diffs, which take long if they have many GB."""
    session = connection.session
    sent, received = connection.progress()
    if session.is_making_diff or connection.feed.progress() is not None:
        logger.info("%s %s: sent %s", connection.name, connection.traces, _in_words(sent))
    if received.blocks_done and any(sync.is_peers for sync in session.open_syncs):
        logger.info("%s %s: received %s", connection.name, connection.traces, _in_words(received))


def _in_words(diff: Progress) -> str:
    total = f" of {diff.bytes_total:,}" if diff.bytes_total else ""
    return (
        f"{diff.blocks_done:,} of {diff.blocks_total:,} blocks of the diff, {diff.bytes_done:,}{total} bytes"
    )


def _within(text: str) -> str:
    """Return the beginning of a text that fits into a record."""
    return text.encode("utf-8", "backslashreplace")[:_MOST_TEXT_BYTES].decode("utf-8", "ignore")
