"""One connection of a peer: its session, and how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from culm_connectors.dag.errors import DagSyncError
from culm_connectors.dag.progress import OnProgress, SyncProgress
from culm_connectors.dag.session import DagSession
from culm_connectors.dag.store.outcomes import BlockOutcome
from culm_connectors.transport.errors import TransportError
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import AckStatus
from culm_models.errors import CulmError


@dataclass(slots=True)
class RemoteDagPeer:
    """The other end of one connection, as this one sees it."""

    session: DagSession
    peer: bytes
    progress: SyncProgress = field(default_factory=SyncProgress)
    on_progress: OnProgress | None = None
    moved_at_s: float = field(default_factory=time.monotonic)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def settled(
        self, cids: Sequence[Cid], outcomes: Sequence[BlockOutcome]
    ) -> list[tuple[Cid, AckStatus, str | None]]:
        """What became of nodes that it brought, counted, and as it is told of that."""
        results = []
        for cid, outcome in zip(cids, outcomes, strict=True):
            self.progress.nodes += outcome.status is AckStatus.DURABLE
            self.progress.list_unkept(cid, outcome.status, outcome.code)
            results.append((cid, outcome.status, outcome.code))
        return results

    def moved(self) -> None:
        """Something came or went: there may be more to send."""
        exchange, progress = self.session.exchange, self.progress
        progress.received_bytes, progress.sent_bytes = exchange.received_bytes, exchange.sent_bytes
        progress.wanted_shards, progress.wanted_bytes = exchange.wanted_shards
        self.moved_at_s = time.monotonic()
        self.session.wake()

    def report(self) -> None:
        """Tell whoever waits for it how far it is."""
        self.changed.set()
        if self.on_progress is not None:
            self.on_progress(self.progress)

    def why_ended(self) -> CulmError:
        """Why there is no connection any more."""
        error = self.session.error
        if isinstance(error, TransportError):
            return error
        return DagSyncError(f"the connection ended: {error or 'the other end closed it'}")
