"""One synchronisation of a reference peer with one remote: what it did so far, and when it is finished."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from culm_connectors.errors import ConnectorError
from culm_connectors.p2panda.connections.link import PeerLink
from culm_connectors.p2panda.driver import Driver
from culm_models.bamboo.entry import read_place
from culm_models.p2panda.events import (
    Announced,
    EntryAccepted,
    EntryRejected,
    Live,
    PeerEvent,
    Reconciled,
    SessionDone,
    SessionFailed,
    SessionStarted,
    Withheld,
)
from culm_models.p2panda.operations.identifiers import normalise

QUIET_S = 3.0
"""Seconds that an idle remote has to begin serving more of our schemas."""
_PROGRESS_INTERVAL_S = 0.1
_FAILURES_A_SCHEMA = 3
MAX_LISTED = 1_000
"""Maximum number of refused and undelivered entries in a summary's lists; all are counted."""


class SyncFailed(ConnectorError):
    """A synchronisation that ended before both sides had what the other holds."""

    code: ClassVar[str] = "peer.sync"


@dataclass(frozen=True, slots=True)
class EntryReport:
    """An entry that was not accepted or not sent, with the code of the reason, and its place if known."""

    code: str
    public_key: bytes | None
    log_id: int | None
    seq_num: int | None


@dataclass(slots=True)
class SyncSummary:
    """Result of one synchronisation; `entries_sent` counts what was written, known to the remote or not.

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
    refused: list[EntryReport] = field(default_factory=list)
    """Entries of the remote that were refused here."""
    logs_withheld: int = 0
    undelivered: list[EntryReport] = field(default_factory=list)
    """The first entry of each log that cannot be sent to the remote, and with it the rest of its log."""
    duration_s: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether both sides have taken everything that was to be exchanged."""
        return not self.entries_rejected and not self.logs_withheld


class Local(Protocol):
    """The parts of the local peer that a synchronisation uses."""

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
        self._failed = 0
        """Sessions that have failed since anything last came of one."""
        self._last_failure = ""
        self._told_s = 0.0

    def on_event(self, event: PeerEvent) -> None:
        """Take an event of the protocol into account."""
        summary = self.summary
        if event.remote != summary.remote:
            return
        if isinstance(event, EntryAccepted | SessionDone | Live):
            self._failed = 0
        if isinstance(event, EntryAccepted):
            summary.entries_received += 1
        elif isinstance(event, EntryRejected):
            summary.entries_rejected += 1
            position = read_place(event.entry) or (None, None, None)
            _list(summary.refused, EntryReport(event.code, *position))
        elif isinstance(event, Withheld):
            summary.logs_withheld += 1
            report = EntryReport(event.code, event.public_key, event.log_id, event.seq_num)
            _list(summary.undelivered, report)
        elif isinstance(event, SessionFailed):
            self._failed += 1
            self._last_failure = f"{event.message} ({event.code})"
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
            link = self._peer.driver.links.open.get(summary.remote)
            if link is not None:
                self.update(link)
            self._progress(summary)

    def update(self, link: PeerLink) -> None:
        """Take the count of what was written."""
        self.summary.entries_sent = link.entries_out

    async def finished(self) -> None:
        """Return when all common schemas are caught up, and the remote has had time to name more of ours.

        Raises `SyncFailed` when sessions fail again and again and nothing comes of any.
        """
        while True:
            own = self._peer.announced
            common = own & self._announced if self._announced is not None else frozenset()
            caught_up = common <= self._covered
            self.summary.not_served = normalise(own - common)
            if caught_up and common and own <= common:
                return
            if self._failed >= _FAILURES_A_SCHEMA * max(1, len(common - self._covered)):
                raise SyncFailed(f"no session comes to its end: {self._last_failure}")
            self._heard.clear()
            try:
                async with asyncio.timeout(self._quiet_s if caught_up else None):
                    await self._heard.wait()
            except TimeoutError:
                return


def _list(reports: list[EntryReport], report: EntryReport) -> None:
    if len(reports) < MAX_LISTED:
        reports.append(report)
