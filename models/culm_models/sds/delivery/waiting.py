"""Messages that are not in the log yet: with unmet dependencies, or too far ahead in time.

Messages with unmet causal dependencies (specification "Receive Message") are indexed by the messages they
wait for: a delivery looks only at the messages that name the delivered one. Their number, bytes and
dependencies are limited. Above a limit the latest are dropped, because the earliest can be delivered first.

Messages whose Lamport timestamp is too far ahead are quarantined until their time comes, so a fast clock
delays only its own messages. A message that would have to wait for more than a day is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from culm_models.sds.state.journal import QUARANTINED, WAITS, Record
from culm_models.sds.wire.messages import HistoryEntry

_SHARE: Final = 16
"""A full buffer drops one in so many messages at once, so that it is not sorted for each message."""


@dataclass(slots=True)
class WaitingMessage:
    """A message with content that is not in the log yet.

    `unmet`: ids of its causal history that are neither in the log nor lost, in its order. `gap`: ids that
    were given up as lost.
    """

    message_id: str
    sender_id: str
    lamport_timestamp: int
    content: bytes
    retrieval_hint: bytes | None
    since_ms: int
    unmet: dict[str, None] = field(default_factory=dict)
    gap: list[str] = field(default_factory=list)
    is_disputed: bool = False
    """Whether another message with this id was reported."""

    @property
    def key(self) -> tuple[int, str]:
        """Its position in the order of the log."""
        return self.lamport_timestamp, self.message_id

    def record(self) -> Record:
        """Return the journal's record of a message that starts to wait."""
        return (
            WAITS,
            self.message_id,
            self.lamport_timestamp,
            self.sender_id,
            self.retrieval_hint,
            self.content,
            self.since_ms,
            tuple(self.unmet),
            tuple(self.gap),
        )


class WaitingMessages:
    """The waiting messages, in the order of arrival."""

    __slots__ = ("_bytes", "_edges", "_held", "_max_bytes", "_max_edges", "_max_messages", "_waiters")

    def __init__(self, *, max_messages: int, max_bytes: int, max_edges: int) -> None:
        self._max_messages, self._max_bytes, self._max_edges = max_messages, max_bytes, max_edges
        self._held: dict[str, WaitingMessage] = {}
        self._waiters: dict[str, dict[str, None]] = {}
        self._bytes = self._edges = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._held

    def __iter__(self) -> Iterator[WaitingMessage]:
        return iter(self._held.values())

    def get(self, message_id: str) -> WaitingMessage | None:
        """Return a waiting message; None if it does not wait."""
        return self._held.get(message_id)

    def put(self, message: WaitingMessage) -> None:
        """Keep a message that waits for at least one other."""
        self._held[message.message_id] = message
        self._bytes += len(message.content)
        self._edges += len(message.unmet)
        for message_id in message.unmet:
            self._waiters.setdefault(message_id, {})[message.message_id] = None

    def waiters(self, message_id: str) -> tuple[str, ...]:
        """Return the ids of the messages that wait for this one."""
        return tuple(self._waiters.get(message_id, ()))

    def awaited(self, message_id: str) -> bool:
        """Whether any message waits for this one."""
        return message_id in self._waiters

    def met(self, message_id: str, *, lost: bool = False) -> list[WaitingMessage]:
        """Resolve a message that was logged or lost. Returns the messages that this frees and removes."""
        waiters = self._waiters.pop(message_id, None)
        if waiters is None:
            return []
        free: list[WaitingMessage] = []
        self._edges -= len(waiters)
        for waiter in waiters:
            message = self._held[waiter]
            del message.unmet[message_id]
            if lost:
                message.gap.append(message_id)
            if not message.unmet:
                free.append(self.take(waiter))
        return free

    def take(self, message_id: str) -> WaitingMessage:
        """Remove and return a waiting message, with its unmet dependencies."""
        message = self._held.pop(message_id)
        self._bytes -= len(message.content)
        self._edges -= len(message.unmet)
        for unmet in message.unmet:
            waiters = self._waiters[unmet]
            del waiters[message_id]
            if not waiters:
                del self._waiters[unmet]
        return message

    def take_excess(self) -> list[WaitingMessage]:
        """Remove and return the latest messages in log order until the limits hold."""
        gone: list[WaitingMessage] = []
        while (
            len(self._held) > self._max_messages
            or self._bytes > self._max_bytes
            or self._edges > self._max_edges
        ):
            latest = sorted(self._held.values(), key=lambda message: message.key, reverse=True)
            gone += [self.take(message.message_id) for message in latest[: len(latest) // _SHARE + 1]]
        return gone

    def stuck(self, is_missing: Callable[[str], bool]) -> list[WaitingMessage]:
        """Return messages that no missing one can free: they wait in a cycle, or for ids not searched for."""
        freed = {message_id for message_id in self._waiters if is_missing(message_id)}
        edge = list(freed)
        while edge:
            for waiter in self._waiters.get(edge.pop(), ()):
                if waiter not in freed:
                    freed.add(waiter)
                    edge.append(waiter)
        return [message for message in self._held.values() if message.message_id not in freed]


_LONGEST_MS: Final = 86_400_000
_ENTRY_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class QuarantinedMessage:
    """A message with content, and the wall-clock time at which it is released."""

    due_ms: int
    message_id: str
    sender_id: str
    lamport_timestamp: int
    content: bytes
    causal_history: tuple[HistoryEntry, ...]
    retrieval_hint: bytes | None

    @property
    def size(self) -> int:
        """Approximate memory use in bytes: the content, and each history entry with its overhead."""
        return len(self.content) + sum(
            len(entry.message_id) + len(entry.retrieval_hint or b"") + _ENTRY_BYTES
            for entry in self.causal_history
        )

    def record(self) -> Record:
        """Return the journal's record of a quarantined message."""
        return (
            QUARANTINED,
            self.due_ms,
            self.message_id,
            self.sender_id,
            self.lamport_timestamp,
            self.content,
            tuple((entry.message_id, entry.retrieval_hint, entry.sender_id) for entry in self.causal_history),
            self.retrieval_hint,
        )


class Quarantine:
    """The quarantined messages, by their time of release."""

    __slots__ = ("_by_id", "_bytes", "_due", "_max_bytes", "_max_messages")

    def __init__(self, *, max_messages: int, max_bytes: int) -> None:
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._by_id: dict[str, QuarantinedMessage] = {}
        self._due: list[tuple[int, str]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._by_id

    def __iter__(self) -> Iterator[QuarantinedMessage]:
        return iter(self._by_id.values())

    def put(self, message: QuarantinedMessage, clock_ms: int) -> bool:
        """Quarantine a message. Returns False if it is too far ahead, over the limits or already there."""
        size = message.size
        if (
            message.due_ms - clock_ms > _LONGEST_MS
            or len(self._by_id) >= self._max_messages
            or self._bytes + size > self._max_bytes
            or message.message_id in self._by_id
        ):
            return False
        self.restore(message)
        return True

    def restore(self, message: QuarantinedMessage) -> None:
        """Quarantine a message from a journal, without checks."""
        self._by_id[message.message_id] = message
        self._bytes += message.size
        heappush(self._due, (message.due_ms, message.message_id))

    def take_due(self, clock_ms: int) -> list[QuarantinedMessage]:
        """Remove and return the messages whose time has come, earliest first."""
        due: list[QuarantinedMessage] = []
        while self._due and self._due[0][0] <= clock_ms:
            due.append(self._remove(heappop(self._due)[1]))
        return due

    def take(self, message_id: str) -> None:
        """Remove one message, as recorded in a journal."""
        message = self._by_id[message_id]
        self._due.remove((message.due_ms, message_id))
        self._due.sort()
        self._remove(message_id)

    def next_due_ms(self) -> int | None:
        """Return the time of the first release; None if the quarantine is empty."""
        return self._due[0][0] if self._due else None

    def _remove(self, message_id: str) -> QuarantinedMessage:
        message = self._by_id.pop(message_id)
        self._bytes -= message.size
        return message
