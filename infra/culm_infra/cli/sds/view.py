"""A channel as people see it: messages in the order of the log, each with how far it is heard.

Folds the channel's events. Time and terminal are not known here.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from culm_topics.sds.records import SdsEventRecord

MAX_KNOWN = 100_000
"""Messages that a view keeps; the ones that came first leave beyond it."""

STATES = {"possibly_acknowledged", "acknowledged", "gave_up"}


@dataclass(slots=True)
class ChannelMessage:
    """One message. `state` is None where its sender is not hosted: nobody here waits for its acknowledgement.

    `inserted`: it came when the log already had later ones. `gap`: ids that it refers to and that are lost.
    """

    message_id: str
    sender_id: str
    lamport_timestamp: int | None
    position: int | None
    content: bytes
    time_ms: int
    ephemeral: bool
    number: int
    gap: tuple[str, ...] = ()
    inserted: bool = False
    state: str | None = None
    evidence: tuple[str, ...] = ()
    attempts: int = 0

    @property
    def place(self) -> tuple[int, bytes]:
        """What orders the log; ephemeral messages have no place in it."""
        return self.lamport_timestamp or 0, self.message_id.encode()


@dataclass(slots=True)
class ChannelView:
    """The messages of one channel, as far as its events were shown to it."""

    most: int = MAX_KNOWN
    _messages: OrderedDict[str, ChannelMessage] = field(default_factory=OrderedDict)
    _newest: tuple[int, bytes] | None = None

    def take(self, event: SdsEventRecord) -> ChannelMessage | None:
        """The message that this event brings, or whose state it changes; None where it does neither.

        A message that several participants hear of comes once.
        """
        if event.kind in ("sent", "delivered"):
            return self._message(event)
        if event.kind in STATES:
            return self._state(event)
        return None

    def messages(self) -> list[ChannelMessage]:
        """All that is known, in the order of the log; ephemeral messages are not in it."""
        return sorted(
            (message for message in self._messages.values() if not message.ephemeral),
            key=lambda message: message.place,
        )

    def _message(self, event: SdsEventRecord) -> ChannelMessage | None:
        known = self._messages.get(event.message_id)
        if known is not None:
            return None
        details = event.details
        message = ChannelMessage(
            event.message_id,
            _text(details.get("sender_id")) or event.participant_id or "",
            _number(details.get("lamport_timestamp")),
            _number(details.get("position")),
            event.content or b"",
            event.time_ms,
            bool(details.get("ephemeral")),
            event.number,
            _texts(details.get("gap")),
        )
        if event.kind == "sent" and not message.ephemeral:
            message.state = "unacknowledged"
        if message.lamport_timestamp is not None:
            message.inserted = self._newest is not None and message.place < self._newest
            if not message.inserted:
                self._newest = message.place
        self._messages[message.message_id] = message
        if len(self._messages) > self.most:
            self._messages.popitem(last=False)
        return message

    def _state(self, event: SdsEventRecord) -> ChannelMessage | None:
        message = self._messages.get(event.message_id)
        if message is None:
            return None
        message.state = event.kind
        message.evidence = _texts(event.details.get("evidence")) or message.evidence
        message.attempts = _number(event.details.get("attempts")) or message.attempts
        return message


def _text(detail: Any) -> str | None:
    return detail if isinstance(detail, str) else None


def _number(detail: Any) -> int | None:
    return detail if isinstance(detail, int) and not isinstance(detail, bool) else None


def _texts(detail: Any) -> tuple[str, ...]:
    return detail if isinstance(detail, tuple) else ()
