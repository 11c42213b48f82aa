"""Data that waits to be sent to one remote, in order: whole messages, and ranges that the driver reads.

A log with an entry that is too large for any message is not sent in full. Entries of that size are no longer
accepted, but a store may hold some from before. Sending one would end the remote's stream, and the remote
would refuse the entries that follow it. All other entries are sent.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda import events
from culm_models.p2panda.errors import OperationTooLargeError
from culm_models.p2panda.events import EventQueue
from culm_models.p2panda.operations.operation import check_size
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.table import SessionTable


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """The bytes of one or more messages, with the facts that their writer needs.

    `follows`: the session to which the message belongs and whose entries it must not overtake; None if it may
    overtake them. `entry`: the log and the sequence number of the live entry in the message.
    """

    data: bytes
    follows: int | None = None
    entry: tuple[LogKey, int] | None = None


Queued: TypeAlias = QueuedMessage | EntryRange


class SendQueue(deque[Queued]):
    """A queue that counts the items taken off its front, so that the sender knows when a message has left.

    `waiting_bytes` is the size of the messages in it; the size of a range is negligible. `is_partial`: more
    items follow, which are looked up when the peer is asked for the queue again.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        """Create a queue that `is_full` beyond either limit; callers check this before they add items."""
        super().__init__()
        self._max_items = max_items
        self._max_bytes = max_bytes
        self.sent_count = 0
        self.waiting_bytes = 0
        self.is_partial = False

    @property
    def queued_count(self) -> int:
        """Number of items ever added."""
        return self.sent_count + len(self)

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, because the remote reads more slowly than data is queued."""
        return len(self) >= self._max_items or self.waiting_bytes >= self._max_bytes

    def append(self, item: Queued) -> None:
        """Add an item at the end."""
        super().append(item)
        if isinstance(item, QueuedMessage):
            self.waiting_bytes += len(item.data)

    def extend(self, items: Iterable[Queued]) -> None:
        """Add items at the end."""
        for item in items:
            self.append(item)

    def popleft(self) -> Queued:
        """Take the next item."""
        item = super().popleft()
        self.sent_count += 1
        if isinstance(item, QueuedMessage):
            self.waiting_bytes -= len(item.data)
        return item

    def clear(self) -> None:
        """Drop all waiting items."""
        super().clear()
        self.waiting_bytes = 0


Pair: TypeAlias = tuple[bytes, bytes]
"""The bytes of an entry and of its operation."""


class WithheldLogs:
    """The logs of one link that are not sent in full, each with its first entry that is too large."""

    def __init__(self, remote: bytes, sessions: SessionTable, queue: EventQueue) -> None:
        self._remote = remote
        self._sessions = sessions
        self._events = queue
        self._first: dict[LogKey, int] = {}

    def __contains__(self, log: LogKey) -> bool:
        return log in self._first

    def sendable(self, part: EntryRange, pairs: Iterable[Pair]) -> list[Pair]:
        """Return these entries of a part of a log, up to the first one that is too large."""
        log = (part.public_key, part.log_id)
        if part.first_seq_num > self._first.get(log, part.first_seq_num):
            # The remote has shown in the meantime that it holds that entry.
            del self._first[log]
        taken: list[Pair] = []
        for seq_num, pair in enumerate(pairs, part.first_seq_num):
            if not self._is_sendable(log, seq_num, *pair):
                break
            taken.append(pair)
        return taken

    def sends(self, checked: SoundEntry) -> bool:
        """Whether an entry that was just stored may be sent."""
        return checked.log not in self._first and self._is_sendable(
            checked.log, checked.entry.seq_num, checked.entry_bytes, checked.payload_bytes
        )

    def _is_sendable(self, log: LogKey, seq_num: int, entry: bytes, operation: bytes) -> bool:
        try:
            check_size(operation)
        except OperationTooLargeError as error:
            if log not in self._first:
                self._first[log] = seq_num
                for session in self._sessions:
                    session.drop_unsent(log)
                event = events.Withheld(self._remote, error.code, str(error), *log, seq_num, entry)
                self._events.add(event)
            return False
        return True
