"""What the p2panda driver counts; plain numbers that an exporter, a summary or a test reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from culm_connectors.edge.protocol_metrics import SessionMetrics
from culm_models.p2panda.errors import DisconnectedError
from culm_models.p2panda.events import (
    Duplicate,
    EntryAccepted,
    Event,
    Ignored,
    LinkFailed,
    Live,
    Reconciled,
    Rejected,
    SessionDone,
    SessionFailed,
    SessionStarted,
    Withheld,
)

_LEFT = frozenset((DisconnectedError.code,))


@dataclass(slots=True)
class DriverMetrics(SessionMetrics):
    """What p2panda counts beside what every protocol with sessions does."""

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
    """Parts of logs that remotes lack and that are on their way into the store."""

    def count(self, event: Event) -> None:
        """Count what an event of the protocol says."""
        if isinstance(event, EntryAccepted):
            self.entries_accepted += 1
        elif isinstance(event, Duplicate):
            self.duplicates += 1
        elif isinstance(event, Rejected | LinkFailed):
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
