"""Handling of a peer's events: they are counted, and passed on if others must learn of them.

Numbers are plain: an exporter, a summary or a test reads them. Others learn by topics, and by the choice of
schemas to serve.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from culm_connectors.edge.protocol_metrics import SessionMetrics
from culm_connectors.logs.hub import LogPublisher, RefusedEntry
from culm_connectors.p2panda.announcements import AnnouncementTopic
from culm_connectors.p2panda.interest import Interest
from culm_models.bamboo.errors import ForkError
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.errors import DisconnectedError
from culm_models.p2panda.events import (
    Announced,
    Duplicate,
    EntryAccepted,
    EntryRejected,
    Heights,
    Ignored,
    LinkFailed,
    Live,
    PeerEvent,
    Reconciled,
    SessionDone,
    SessionFailed,
    SessionStarted,
    Withheld,
)
from culm_models.p2panda.operations.operation import peek

_LEFT = frozenset((DisconnectedError.code,))


@dataclass(slots=True)
class DriverMetrics(SessionMetrics):
    """Counters of p2panda, in addition to those of every protocol with sessions."""

    sessions_by_mode: Counter[int] = field(default_factory=Counter)
    sessions_live: int = 0
    reconciled: int = 0
    """Set reconciliations that came to their end, and below what they took, both ways."""
    reconciliation_rounds: int = 0
    reconciliation_messages: int = 0
    reconciliation_bytes_in: int = 0
    reconciliation_bytes_out: int = 0
    differing_logs: int = 0
    messages_in: int = 0
    entries_in: int = 0
    """Entry messages read, whatever became of them."""
    entries_accepted: int = 0
    entries_out: int = 0
    duplicates: int = 0
    withheld_logs: int = 0
    """Logs that a remote was not sent in full: they hold an entry that no message can carry."""
    ignored: Counter[str] = field(default_factory=Counter)
    ranges_held_back: int = 0
    """Parts of logs that remotes are missing and that are on their way into the store."""

    def count(self, event: PeerEvent) -> None:
        """Count an event of the protocol."""
        if isinstance(event, EntryAccepted):
            self.entries_accepted += 1
        elif isinstance(event, Duplicate):
            self.duplicates += 1
        elif isinstance(event, EntryRejected | LinkFailed):
            self.rejects[event.code] += 1
        elif isinstance(event, Withheld):
            self.withheld_logs += 1
        elif isinstance(event, Ignored):
            self.ignored[event.code] += 1
        elif isinstance(event, SessionStarted):
            self.sessions_started += 1
            self.sessions_by_mode[event.mode] += 1
        elif isinstance(event, Reconciled):
            self.reconciled += 1
            self.reconciliation_rounds += event.rounds
            self.reconciliation_messages += event.messages_in + event.messages_out
            self.reconciliation_bytes_in += event.bytes_in
            self.reconciliation_bytes_out += event.bytes_out
            self.differing_logs += event.differing_logs
        elif isinstance(event, SessionDone):
            self.sessions_done += 1
        elif isinstance(event, Live):
            self.sessions_live += 1
        elif isinstance(event, SessionFailed):
            if event.code in _LEFT:
                self.sessions_left += 1
            else:
                self.sessions_failed[event.code] += 1


@dataclass(frozen=True, slots=True)
class PeerEvents:
    """The observer of a connector's drivers."""

    publisher: LogPublisher
    interest: Interest
    announcements: AnnouncementTopic
    wants_deliveries: bool = True

    def on_event(self, event: PeerEvent) -> None:
        """Pass on what concerns others."""
        if isinstance(event, Announced):
            self.announcements.announced(event)
            self.interest.want(event.remote, event.schema_ids, time.monotonic())
        elif isinstance(event, EntryRejected):
            self._rejected(event)
        elif isinstance(event, Withheld):
            self.publisher.withheld(event.code, event.message, event.entry)
        elif isinstance(event, Heights):
            self.publisher.receipts(event.remote, ((row[0], row[1], row[2]) for row in event.log_heights))
        elif isinstance(event, LinkFailed):
            self.publisher.refused(RefusedEntry(event.code, event.message, event.remote))

    def _rejected(self, event: EntryRejected) -> None:
        refusal = RefusedEntry(event.code, event.message, event.remote, event.entry, event.operation)
        if not event.blameless:
            self.publisher.refused(refusal)
        elif event.code == ForkError.code:
            self.publisher.contradicted(
                refusal, lambda: (peek(event.operation).schema_id, event.session_id or 0)
            )
        else:
            self.publisher.contradicted(refusal)

    def on_gone(self, remote: bytes) -> None:
        """Remove a peer that has left from the announcements and from the interest in schemas."""
        self.announcements.left(remote)
        self.interest.gone(remote, time.monotonic())

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A peer has received entries up to these numbers."""
        self.publisher.receipts(remote, ((key, log_id, seq) for (key, log_id), seq in heights.items()))
