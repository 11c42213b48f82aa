"""What waits to be sent to one remote, in order: whole messages, and ranges that the driver reads."""

from collections import deque
from typing import TypeAlias

from culm_models.p2panda.ranges import EntryRange

Outgoing: TypeAlias = bytes | EntryRange


class Outbox(deque[Outgoing]):
    """A queue that counts what was taken off its front, so that it is known when a message has left."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_count = 0

    @property
    def queued_count(self) -> int:
        """How many items were ever put in."""
        return self.sent_count + len(self)

    def popleft(self) -> Outgoing:
        """Take the next item."""
        item = super().popleft()
        self.sent_count += 1
        return item
