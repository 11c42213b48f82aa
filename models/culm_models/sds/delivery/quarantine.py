"""Messages whose Lamport timestamp is too far ahead of the time, kept aside until that time has come.

So a fast clock delays its own messages alone. What would have to wait for longer than a day is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from culm_models.sds.wire.messages import HistoryEntry

_LONGEST_MS: Final = 86_400_000
_ENTRY_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A message with content, and when it is taken, by the wall clock."""

    due_ms: int
    message_id: str
    sender_id: str
    lamport_timestamp: int
    content: bytes
    causal_history: tuple[HistoryEntry, ...]
    retrieval_hint: bytes | None

    @property
    def size(self) -> int:
        """About what it takes, in bytes: the content, and what each history entry brings along."""
        return len(self.content) + sum(
            len(entry.message_id) + len(entry.retrieval_hint or b"") + _ENTRY_BYTES
            for entry in self.causal_history
        )


class Quarantine:
    """What is kept aside, by when it is taken."""

    __slots__ = ("_by_id", "_bytes", "_due", "_most", "_most_bytes")

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._by_id: dict[str, Quarantined] = {}
        self._due: list[tuple[int, str]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._by_id

    def __iter__(self) -> Iterator[Quarantined]:
        return iter(self._by_id.values())

    def put(self, message: Quarantined, clock_ms: int) -> bool:
        """Keep a message aside; False where its time is too far, there is no room, or it is there already."""
        size = message.size
        if (
            message.due_ms - clock_ms > _LONGEST_MS
            or len(self._by_id) >= self._most
            or self._bytes + size > self._most_bytes
            or message.message_id in self._by_id
        ):
            return False
        self.restore(message)
        return True

    def restore(self, message: Quarantined) -> None:
        """A message is kept aside, as a journal tells."""
        self._by_id[message.message_id] = message
        self._bytes += message.size
        heappush(self._due, (message.due_ms, message.message_id))

    def take_due(self, clock_ms: int) -> list[Quarantined]:
        """The messages whose time has come, earliest first."""
        found: list[Quarantined] = []
        while self._due and self._due[0][0] <= clock_ms:
            found.append(self._remove(heappop(self._due)[1]))
        return found

    def take(self, message_id: str) -> None:
        """One message is taken, as a journal tells."""
        message = self._by_id[message_id]
        self._due.remove((message.due_ms, message_id))
        self._due.sort()
        self._remove(message_id)

    def next_due_ms(self) -> int | None:
        """When the first of them is taken."""
        return self._due[0][0] if self._due else None

    def _remove(self, message_id: str) -> Quarantined:
        message = self._by_id.pop(message_id)
        self._bytes -= message.size
        return message
