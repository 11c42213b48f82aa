"""A channel for people: messages in the order of the log, each with its acknowledgement state."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from culm_infra.cli.kit.output import at, emit_json, out, safe
from culm_topics.sds.records import SdsEventRecord

MAX_KNOWN = 100_000
"""Limit of messages that a view keeps; the oldest leave first."""

STATES = {"possibly_acknowledged", "acknowledged", "gave_up"}


@dataclass(slots=True)
class ChannelMessage:
    """One message. `state` is None if its sender is not hosted, since its acknowledgement is not tracked
    here.

    `inserted`: it arrived when the log already had later messages. `gap`: lost ids that it refers to.
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
    def sort_key(self) -> tuple[int, bytes]:
        """Position by which the log is ordered; ephemeral messages are not in the log."""
        return self.lamport_timestamp or 0, self.message_id.encode()


@dataclass(slots=True)
class ChannelView:
    """Messages of one channel, from the events that the view has received."""

    limit: int = MAX_KNOWN
    _messages: OrderedDict[str, ChannelMessage] = field(default_factory=OrderedDict)
    _newest: tuple[int, bytes] | None = None

    def take(self, event: SdsEventRecord) -> ChannelMessage | None:
        """Return the message that this event adds or whose state it changes; None if it does neither.

        A message that several participants receive is returned once.
        """
        if event.kind in ("sent", "delivered"):
            return self._message(event)
        if event.kind in STATES:
            return self._state(event)
        return None

    def messages(self) -> list[ChannelMessage]:
        """Return all known messages in the order of the log; ephemeral messages are not in it."""
        return sorted(
            (message for message in self._messages.values() if not message.ephemeral),
            key=lambda message: message.sort_key,
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
            message.inserted = self._newest is not None and message.sort_key < self._newest
            if not message.inserted:
                self._newest = message.sort_key
        self._messages[message.message_id] = message
        if len(self._messages) > self.limit:
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


_ID_SIZE = 10
_CONTENT_SIZE = 120
_STATE_WORDS = {
    "unacknowledged": "· unacknowledged",
    "possibly_acknowledged": "~ possibly acknowledged",
    "acknowledged": "✓ acknowledged",
    "gave_up": "✗ given up",
}


@dataclass(slots=True)
class Screen:
    """Prints the events of a channel. `kinds` are the events that get a line of their own; None: all.

    Nothing is printed after `limit` results.
    """

    channel_id: str
    kinds: frozenset[str] | None
    json: bool
    view: ChannelView = field(default_factory=ChannelView)
    limit: int | None = None
    printed: int = 0

    @property
    def is_full(self) -> bool:
        """Whether as many results are printed as the limit allows."""
        return self.limit is not None and self.printed >= self.limit

    def message(self, message: ChannelMessage) -> None:
        """Print a message in its present state."""
        if self.is_full:
            return
        self.printed += 1
        if self.json:
            emit_json(message_json(self.channel_id, message))
        else:
            out.print(message_line(message))

    def event(self, event: SdsEventRecord) -> None:
        """Print a message that an event adds, a state that it changes, or the event itself."""
        message = self.view.take(event)
        if message is not None and event.kind not in STATES:
            self.message(message)
        elif (message is not None or self.kinds is None or event.kind in self.kinds) and not self.is_full:
            self.printed += 1
            if self.json:
                emit_json(event_json(self.channel_id, event))
            else:
                out.print(event_line(event) if message is None else state_line(message, event.time_ms))


def message_line(message: ChannelMessage) -> str:
    """Return a message as one line: time, position, sender, content, state, and anomalies."""
    position = (
        "ephemeral" if message.ephemeral else "" if message.position is None else f"#{message.position}"
    )
    notes: list[str] = []
    if message.inserted:
        notes.append("↑ inserted: later ones were here before")
    if message.gap:
        notes.append(f"⚠ gap: {_several(message.gap)} lost")
    if message.state is not None:
        notes.append(state_words(message))
    return "  ".join(
        [
            at(message.time_ms),
            f"{position:<9}",
            _who(message.sender_id),
            safe(content_text(message.content)),
            *notes,
        ]
    )


def state_line(message: ChannelMessage, time_ms: int) -> str:
    """Return the line for a message whose state has changed."""
    position = "" if message.position is None else f"#{message.position}"
    return f"{at(time_ms)}  {position:<9}  {_who(message.sender_id)}  {state_words(message)}"


def event_line(event: SdsEventRecord) -> str:
    """Return the line for any other event."""
    who = "" if event.participant_id is None else f"{safe(short(event.participant_id))}: "
    about = f" {safe(short(event.message_id))}" if event.message_id else ""
    details = ", ".join(
        f"{safe(name)} {_shown(detail)}" for name, detail in event.details.items() if name != "token"
    )
    line = f"{at(event.time_ms)}  {who}{event.kind.replace('_', ' ')}{about}"
    return f"{line}  ({details})" if details else line


def message_json(channel_id: str, message: ChannelMessage) -> dict[str, Any]:
    """Return a message with its present state."""
    return {
        "channel": channel_id,
        "kind": "message",
        "number": message.number,
        "message_id": message.message_id,
        "sender_id": message.sender_id,
        "lamport_timestamp": message.lamport_timestamp,
        "position": message.position,
        "time_ms": message.time_ms,
        "ephemeral": message.ephemeral,
        "inserted": message.inserted,
        "gap": message.gap,
        "state": message.state,
        "evidence": message.evidence,
        "content": message.content,
        "text": _utf8(message.content),
    }


def event_json(channel_id: str, event: SdsEventRecord) -> dict[str, Any]:
    """Return an event as it is in the topic, without content."""
    return {
        "channel": channel_id,
        "kind": event.kind,
        "number": event.number,
        "message_id": event.message_id,
        "participant_id": event.participant_id,
        "time_ms": event.time_ms,
        **dict(event.details),
    }


def state_words(message: ChannelMessage) -> str:
    """Return the state of a message in words, with the participants that are its evidence."""
    words = _STATE_WORDS.get(message.state or "", "")
    if message.evidence:
        words += f" by {_several(message.evidence)}"
    if message.state == "gave_up":
        words += f" after {message.attempts} attempts"
    return words


def short(identifier: str) -> str:
    """Return an id, cut to a few characters."""
    return identifier if len(identifier) <= _ID_SIZE + 1 else f"{identifier[:_ID_SIZE]}…"


def content_text(content: bytes) -> str:
    """Return content as text if it is UTF-8, otherwise in hex; cut to a limit."""
    text = _utf8(content)
    shown = content[: _CONTENT_SIZE // 2].hex() if text is None else text[:_CONTENT_SIZE]
    whole = len(content) <= _CONTENT_SIZE // 2 if text is None else len(text) <= _CONTENT_SIZE
    return shown if whole else f"{shown}…"


def _utf8(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _shown(detail: object) -> str:
    if isinstance(detail, tuple):
        return _several(detail)
    return safe(detail.hex() if isinstance(detail, bytes) else detail)


def _several(ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    return ", ".join(safe(short(id)) for id in ids[:3]) + more


def _who(sender_id: str) -> str:
    # Padded before it is escaped, so that the visible text has the width.
    return safe(f"{short(sender_id):<{_ID_SIZE + 1}}")
