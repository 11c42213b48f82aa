"""What waits to be sent to one remote, in order: whole messages, and ranges that the driver reads."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.reconciliation.ranges import EntryRange


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """The bytes of a message, or of several, and what its writer must know of it.

    `follows`: the session of whose entries it speaks, and which must not overtake them; None where it may
    pass. `entry`: the log and the sequence number of the live entry that it carries.
    """

    data: bytes
    follows: int | None = None
    entry: tuple[LogKey, int] | None = None


Queued: TypeAlias = QueuedMessage | EntryRange


class Outbox(deque[Queued]):
    """A queue that counts what was taken off its front, so that it is known when a message has left.

    `waiting_bytes` is what the messages in it hold; a range takes next to nothing. `is_partial`: there is
    more to be looked up, which is done when the peer is asked for the queue again.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        """Beyond either bound it `is_full`, which whoever adds to it looks at."""
        super().__init__()
        self._max_items = max_items
        self._max_bytes = max_bytes
        self.sent_count = 0
        self.waiting_bytes = 0
        self.is_partial = False

    @property
    def queued_count(self) -> int:
        """How many items were ever put in."""
        return self.sent_count + len(self)

    @property
    def is_full(self) -> bool:
        """Whether the remote takes more slowly than it is sent to."""
        return len(self) >= self._max_items or self.waiting_bytes >= self._max_bytes

    def append(self, item: Queued) -> None:
        """Put an item at the end."""
        super().append(item)
        if isinstance(item, QueuedMessage):
            self.waiting_bytes += len(item.data)

    def extend(self, items: Iterable[Queued]) -> None:
        """Put items at the end."""
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
        """Drop everything that waits."""
        super().clear()
        self.waiting_bytes = 0
