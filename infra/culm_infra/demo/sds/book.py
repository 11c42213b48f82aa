"""What one participant received: the messages it holds, how often each came, when its own were heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from culm_models.sds.frames.messages import EventFrame
from culm_topics.sds.records import SdsEventRecord

Held = tuple[int, str, bytes]
"""(Lamport timestamp, sender id, content) of a message in a log."""


@dataclass(slots=True)
class Book:
    """Fed with events in their order, in one form, so that full and hosted participants compare."""

    participant_id: str
    held: dict[str, Held] = field(default_factory=dict)
    delivered: Counter[str] = field(default_factory=Counter)
    ephemeral: Counter[str] = field(default_factory=Counter)
    sent_ms: dict[str, int] = field(default_factory=dict)
    heard_ms: dict[str, int] = field(default_factory=dict)
    gave_up: set[str] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    """Events of each kind."""
    resent: int = 0
    """How often messages that are heard now were sent again."""

    def record(self, event: EventFrame | SdsEventRecord) -> None:
        """Take one event. What is sent is held at once; the channel delivers it to siblings besides."""
        details: Mapping[str, Any] = event.details
        self.kinds[event.kind] += 1
        if event.kind == "acknowledged":
            self.resent += int(details.get("attempts", 0))
        if event.kind in {"sent", "delivered"}:
            self._hold(event, details)
        elif event.participant_id != self.participant_id:
            return
        elif event.kind == "acknowledged":
            self.heard_ms.setdefault(event.message_id, event.time_ms)
        elif event.kind == "gave_up":
            self.gave_up.add(event.message_id)

    def _hold(self, event: EventFrame | SdsEventRecord, details: Mapping[str, Any]) -> None:
        own = event.kind == "sent" and event.participant_id == self.participant_id
        if details.get("ephemeral"):
            if not own:
                self.ephemeral[event.message_id] += 1
            return
        sender = event.participant_id or "" if event.kind == "sent" else str(details["sender_id"])
        self.held[event.message_id] = (int(details["lamport_timestamp"]), sender, event.content or b"")
        if event.kind == "delivered":
            self.delivered[event.message_id] += 1
        if own:
            self.sent_ms.setdefault(event.message_id, event.time_ms)

    def log(self) -> list[tuple[int, str, str, bytes]]:
        """(Lamport timestamp, message id, sender id, content) in the order that everybody must have."""
        return sorted(
            (
                (lamport, message_id, sender, content)
                for message_id, (lamport, sender, content) in self.held.items()
            ),
            key=lambda row: (row[0], row[1].encode()),
        )

    @property
    def repeated(self) -> int:
        """Deliveries beyond the first, of all messages."""
        return sum(count - 1 for count in self.delivered.values())

    @property
    def latencies_ms(self) -> list[float]:
        """From sending a message of its own to knowing that it was heard."""
        return [
            float(self.heard_ms[one] - sent) for one, sent in self.sent_ms.items() if one in self.heard_ms
        ]
