"""Messages with unmet causal dependencies (specification "Receive Message"), by what they wait for.

When a message is delivered, exactly those that name it are looked at. Bounded in messages, bytes and
dependencies; when there are too many, the latest go, because the earliest can be delivered first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

_SHARE: Final = 16
"""Of a full buffer one in so many is dropped at a time, so that it is not sorted for each message."""


@dataclass(slots=True)
class Held:
    """A message with content that is not in the log yet.

    `unmet`: ids of its causal history that are neither in the log nor lost, in its order. `gap`: those that
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
    """Whether it was told that another message has this id."""

    @property
    def key(self) -> tuple[int, str]:
        """Its place in the log."""
        return self.lamport_timestamp, self.message_id


class WaitingRoom:
    """What waits, in the order of arrival."""

    __slots__ = ("_bytes", "_edges", "_held", "_most", "_most_bytes", "_most_edges", "_waiters")

    def __init__(self, *, most: int, most_bytes: int, most_edges: int) -> None:
        self._most, self._most_bytes, self._most_edges = most, most_bytes, most_edges
        self._held: dict[str, Held] = {}
        self._waiters: dict[str, dict[str, None]] = {}
        self._bytes = self._edges = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._held

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def get(self, message_id: str) -> Held | None:
        """A message that waits; None when it does not."""
        return self._held.get(message_id)

    def put(self, held: Held) -> None:
        """Keep a message that waits for at least one other."""
        self._held[held.message_id] = held
        self._bytes += len(held.content)
        self._edges += len(held.unmet)
        for message_id in held.unmet:
            self._waiters.setdefault(message_id, {})[held.message_id] = None

    def waiters(self, message_id: str) -> tuple[str, ...]:
        """The messages that wait for this one."""
        return tuple(self._waiters.get(message_id, ()))

    def awaited(self, message_id: str) -> bool:
        """Whether any message waits for this one."""
        return message_id in self._waiters

    def met(self, message_id: str, *, lost: bool = False) -> list[Held]:
        """This one is in the log, or lost: the messages that wait for nothing else now, out of the buffer."""
        waiters = self._waiters.pop(message_id, None)
        if waiters is None:
            return []
        free: list[Held] = []
        self._edges -= len(waiters)
        for waiter in waiters:
            held = self._held[waiter]
            del held.unmet[message_id]
            if lost:
                held.gap.append(message_id)
            if not held.unmet:
                free.append(self.take(waiter))
        return free

    def take(self, message_id: str) -> Held:
        """A message that waits, out of the buffer, with what it still waits for."""
        held = self._held.pop(message_id)
        self._bytes -= len(held.content)
        self._edges -= len(held.unmet)
        for unmet in held.unmet:
            waiters = self._waiters[unmet]
            del waiters[message_id]
            if not waiters:
                del self._waiters[unmet]
        return held

    def take_excess(self) -> list[Held]:
        """When there is too much: the latest messages by their place in the log, out of the buffer."""
        gone: list[Held] = []
        while (
            len(self._held) > self._most or self._bytes > self._most_bytes or self._edges > self._most_edges
        ):
            latest = sorted(self._held.values(), key=lambda held: held.key, reverse=True)
            gone += [self.take(held.message_id) for held in latest[: len(latest) // _SHARE + 1]]
        return gone

    def stuck(self, is_missing: Callable[[str], bool]) -> list[Held]:
        """Messages that nothing missing can free: they wait for each other, or for what nobody looks for."""
        freed = {message_id for message_id in self._waiters if is_missing(message_id)}
        edge = list(freed)
        while edge:
            for waiter in self._waiters.get(edge.pop(), ()):
                if waiter not in freed:
                    freed.add(waiter)
                    edge.append(waiter)
        return [held for held in self._held.values() if held.message_id not in freed]
