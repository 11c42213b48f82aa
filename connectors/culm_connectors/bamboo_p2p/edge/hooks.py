"""Passes changes and events of an edge's connections to the outbox, `holdings` and `rejected`."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Final

from culm_connectors.bamboo_p2p.channels.budgets import ChannelBudget
from culm_connectors.bamboo_p2p.edge.metrics import BambooMetrics
from culm_connectors.bamboo_p2p.edge.outbox import DataOrigin, KafkaOutbox
from culm_connectors.bamboo_p2p.edge.reports import HoldingReports, RefusalReports
from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.remote_peer import PeerHooks, RemotePeer
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.edge.budgets import PrincipalBudget, RememberedBudgets
from culm_connectors.edge.intake import Intake
from culm_connectors.local_store.store_guard import StoreGuard
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p import events
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.wire.messages import SkipReason
from culm_topics.records import PEER_ID_SIZE

_ENDS_WAITING: Final = (
    events.PayloadSkipped,
    events.PiecesNotified,
    events.RequestCancelled,
    events.RequestFreed,
)
"""After these events an awaited payload may never arrive."""


class BambooBudget(PrincipalBudget):
    """Budget for connections and data, and `channels` for TCP and TLS."""

    def __init__(self, settings: BambooEdgeSettings, now_s: float) -> None:
        super().__init__(settings, now_s)
        self.channels = ChannelBudget(settings, now_s)


def edge_budgets(settings: BambooEdgeSettings) -> RememberedBudgets[str, BambooBudget]:
    """Return the budgets of all principals."""
    return RememberedBudgets(lambda now_s: BambooBudget(settings, now_s))


def peer_id(principal: str) -> bytes:
    """Return the id of a principal in records (32 bytes): its key, or the SHA-256 of its name."""
    name = principal.rpartition(":")[2]
    try:
        key = bytes.fromhex(name)
    except ValueError:
        key = b""
    return key if len(key) == PEER_ID_SIZE else hashlib.sha256(principal.encode()).digest()


class EdgeHooks(PeerHooks):
    """The hooks of one flavour's peer."""

    def __init__(
        self,
        store: FolderStore,
        outbox: KafkaOutbox,
        intake: Intake,
        holdings: HoldingReports,
        refusals: RefusalReports,
        metrics: BambooMetrics,
        budgets: RememberedBudgets[str, BambooBudget],
        *,
        max_waiting_bytes: int,
        guard: StoreGuard,
    ) -> None:
        self._guard = guard
        self._store = store
        self._outbox = outbox
        self._intake = intake
        self._holdings = holdings
        self._refusals = refusals
        self._metrics = metrics
        self._budgets = budgets
        self._taken: dict[str, int] = {}
        """By connection: received bytes that are charged to its principal's budget."""
        self._max_waiting_bytes = max_waiting_bytes
        self._loop = asyncio.get_running_loop()
        self._origins: dict[str, DataOrigin] = {}
        self._numbers = count(1)

    def watching(self) -> AbstractContextManager[None]:
        """Return the guard's context, which stops all work once the store cannot be written or is damaged."""
        return self._guard.watching()

    def begun(self, remote: RemotePeer) -> None:
        """Count a new connection and assign its origin."""
        self._origins[remote.name] = DataOrigin(peer_id(remote.principal), next(self._numbers), remote.name)
        self._metrics.connections += 1
        self._metrics.connections_total += 1

    def settled(
        self,
        changes_of: Sequence[tuple[str, Changes]],
        events_of: Mapping[str, Sequence[events.BambooP2pEvent]],
    ) -> None:
        """Put new entries and payloads into the outbox, and pass reports and counts to the event loop."""
        notes: list[Callable[[], None]] = []
        for name, changes in changes_of:
            origin = self._origins[name]
            for log, seq_num in changes.entries:
                is_entry, is_payload = self._outbox.received(log, seq_num, origin)
                if is_entry or is_payload:
                    notes.append(
                        partial(
                            self._holdings.add,
                            origin.peer,
                            log,
                            seq_num,
                            entry=is_entry,
                            payload=is_payload,
                        )
                    )
                    notes.append(partial(self._count, is_entry, is_payload))
            for log in changes.forked:
                proof = self._store.fork_proof(log)
                if proof is not None:
                    notes.append(partial(self._refusals.fork, log, proof, origin.peer))
        for name, several in events_of.items():
            for event in several:
                if isinstance(event, _ENDS_WAITING):
                    self._outbox.release(name)
                peer = self._origins[name].peer
                if isinstance(event, events.PayloadSkipped):
                    if event.reason is SkipReason.UNAVAILABLE:
                        notes.append(
                            partial(self._holdings.add_missing_payload, peer, event.log, event.seq_num)
                        )
                elif isinstance(event, events.ConnectionDropped):
                    notes.append(partial(self._refusals.violation, event, peer))
        if notes:
            self._loop.call_soon_threadsafe(_call_all, notes)
        if self._outbox.is_due:
            self._loop.call_soon_threadsafe(self._intake.wake)

    def may_drop(self, log: LogKey, seq_num: int) -> bool:
        """Whether Kafka has the payload, and nothing here needs it."""
        return self._outbox.may_drop_payload(log, seq_num)

    def dropped(self, payloads: Sequence[tuple[LogKey, int]]) -> None:
        """Count the payloads that retention has dropped."""
        entries = (self._store.entry(log, seq_num) for log, seq_num in payloads)
        size = sum(entry.entry.payload_size for entry in entries if entry is not None)
        if payloads:
            self._loop.call_soon_threadsafe(self._count_dropped, len(payloads), size)

    async def wait_for_capacity(self, remote: RemotePeer) -> None:
        """Wait until the principal's budget allows more and Kafka has acknowledged enough of its data."""
        session = remote.session
        size = session.received_bytes - self._taken.get(remote.name, 0)
        self._taken[remote.name] = session.received_bytes
        now_s = time.monotonic()
        budget = self._budgets.of(remote.principal, now_s)
        if (pause_s := budget.wait_s(now_s, size)) > 0:
            await asyncio.sleep(pause_s)
        waiting = self._outbox.waiting_bytes
        if waiting.get(remote.name, 0) > self._max_waiting_bytes:
            await self._intake.wait_until(lambda: waiting.get(remote.name, 0) <= self._max_waiting_bytes)

    def ended(self, remote: RemotePeer) -> None:
        """Release entries that wait for payloads of this connection, and count its end."""
        self._outbox.forget(remote.name)
        del self._origins[remote.name]
        self._loop.call_soon_threadsafe(self._count_end, remote)

    def _count(self, is_entry: bool, is_payload: bool) -> None:
        self._metrics.entries_in += is_entry
        self._metrics.payloads_in += is_payload

    def _count_dropped(self, count: int, size: int) -> None:
        self._metrics.payloads_dropped += count
        self._metrics.payload_bytes_dropped += size

    def _count_end(self, remote: RemotePeer) -> None:
        metrics, session = self._metrics, remote.session
        self._taken.pop(remote.name, None)
        metrics.connections -= 1
        metrics.bytes_in += session.received_bytes
        metrics.bytes_out += session.sent_bytes
        if session.connection.dropped is not None:
            metrics.closed["protocol"] += 1


def _call_all(notes: Sequence[Callable[[], None]]) -> None:
    for note in notes:
        note()
