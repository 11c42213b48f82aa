"""What one participant received: the messages it holds, how often each came, when its own were heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Held = tuple[int, str, bytes]
"""(Lamport timestamp, sender id, content) of a message in a log."""


@dataclass(slots=True)
class Book:
    """Fed with events in their order, as plain data, so that full and hosted participants compare."""

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

    def record(
        self,
        kind: str,
        participant_id: str | None,
        message_id: str,
        time_ms: int,
        details: Mapping[str, Any],
        content: bytes | None,
    ) -> None:
        """Take one event. What is sent is held at once; the channel delivers it to siblings besides."""
        self.kinds[kind] += 1
        if kind == "acknowledged":
            self.resent += int(details.get("attempts", 0))
        if kind in {"sent", "delivered"}:
            self._hold(kind, participant_id, message_id, time_ms, details, content or b"")
        elif participant_id != self.participant_id:
            return
        elif kind == "acknowledged":
            self.heard_ms.setdefault(message_id, time_ms)
        elif kind == "gave_up":
            self.gave_up.add(message_id)

    def _hold(
        self,
        kind: str,
        participant_id: str | None,
        message_id: str,
        time_ms: int,
        details: Mapping[str, Any],
        content: bytes,
    ) -> None:
        own = kind == "sent" and participant_id == self.participant_id
        if details.get("ephemeral"):
            if not own:
                self.ephemeral[message_id] += 1
            return
        sender = participant_id or "" if kind == "sent" else str(details["sender_id"])
        self.held[message_id] = (int(details["lamport_timestamp"]), sender, content)
        if kind == "delivered":
            self.delivered[message_id] += 1
        if own:
            self.sent_ms.setdefault(message_id, time_ms)

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
