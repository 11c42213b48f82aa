"""One synchronisation of a reference peer with one remote: what it did so far, and when it is finished."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from culm_connectors.errors import ConnectorError
from culm_connectors.p2panda.driver import Driver
from culm_models.p2panda.events import (
    Announced,
    EntryAccepted,
    Event,
    Live,
    Reconciled,
    Rejected,
    SessionDone,
    SessionStarted,
)
from culm_models.p2panda.operations.schema_id import normalise

QUIET_S = 3.0
"""How long the remote has, with nothing left to do, to begin serving more of our schemas."""
_PROGRESS_INTERVAL_S = 0.1


class SyncFailed(ConnectorError):
    """A synchronisation that ended before both sides had what the other holds."""

    code: ClassVar[str] = "peer.sync"


@dataclass(slots=True)
class SyncSummary:
    """What one synchronisation did; `entries_sent` counts what was written, known to the remote or not.

    `rounds`, `reconciliation_bytes` (both ways) and `differing_logs` are those of set reconciliation.
    """

    remote: bytes = b""
    schema_ids: tuple[str, ...] = ()
    not_served: tuple[str, ...] = ()
    """Schemas of ours that the remote does not serve, or not yet."""
    sessions: int = 0
    modes: tuple[int, ...] = ()
    rounds: int = 0
    reconciliation_bytes: int = 0
    differing_logs: int = 0
    entries_received: int = 0
    entries_sent: int = 0
    entries_rejected: int = 0
    duration_s: float = 0.0


class Local(Protocol):
    """What is asked of the local peer."""

    driver: Driver

    @property
    def announced(self) -> frozenset[str]:
        """The schemas that it announces."""
        ...


class SyncWatch:
    """Decides when a synchronisation with one remote has done what it can."""

    def __init__(
        self,
        remote: bytes,
        peer: Local,
        progress: Callable[[SyncSummary], None],
        quiet_s: float = QUIET_S,
    ) -> None:
        self.summary = SyncSummary(remote=remote)
        self._peer = peer
        self._progress = progress
        self._quiet_s = quiet_s
        self._announced: frozenset[str] | None = None
        self._covered: set[str] = set()
        self._heard = asyncio.Event()
        self._told_s = 0.0

    def on_event(self, event: Event) -> None:
        """Take an event of the protocol into account."""
        summary = self.summary
        if event.remote != summary.remote:
            return
        if isinstance(event, EntryAccepted):
            summary.entries_received += 1
        elif isinstance(event, Rejected):
            summary.entries_rejected += 1
        elif isinstance(event, Announced):
            self._announced = frozenset(event.schema_ids)
        elif isinstance(event, SessionStarted):
            summary.sessions += 1
            summary.modes = tuple(sorted({*summary.modes, event.mode}))
        elif isinstance(event, Reconciled):
            summary.rounds += event.rounds
            summary.reconciliation_bytes += event.bytes_in + event.bytes_out
            summary.differing_logs += event.differing_logs
        elif isinstance(event, SessionDone | Live):
            self._covered.update(event.schema_ids)
            summary.schema_ids = normalise(self._covered)
        self._heard.set()
        now_s = time.monotonic()
        if now_s - self._told_s >= _PROGRESS_INTERVAL_S:
            self._told_s = now_s
            self.update()
            self._progress(summary)

    def update(self) -> None:
        """Take the count of what was written."""
        link = self._peer.driver.links.get(self.summary.remote)
        if link is not None:
            self.summary.entries_sent = link.entries_out

    async def finished(self) -> None:
        """Return when all common schemas are caught up, and the remote has had time to name more of ours."""
        while True:
            own = self._peer.announced
            common = own & self._announced if self._announced is not None else frozenset()
            caught_up = common <= self._covered
            self.summary.not_served = normalise(own - common)
            if caught_up and common and own <= common:
                return
            self._heard.clear()
            try:
                async with asyncio.timeout(self._quiet_s if caught_up else None):
                    await self._heard.wait()
            except TimeoutError:
                return
