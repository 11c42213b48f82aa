"""Channels that a worker process keeps in memory between batches, the ones used longest ago forgotten first.

A copy is taken out before it is used and put back when its state is written: after a failure it is gone.
Whether it is still the channel as it is in state, its token says.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from culm_models.sds.channel import Channel

_BASE_WEIGHT = 2
"""What a channel takes beside all that its own weight counts, in log entries."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A channel as it was when its state had this token; `mark` is that of its journal."""

    token: bytes
    mark: int
    channel: Channel
    weight: int

    @staticmethod
    def of(token: bytes, channel: Channel) -> "Copy":
        """A copy, weighed by what the channel holds."""
        return Copy(token, channel.journal_mark, channel, _BASE_WEIGHT + channel.weight())


class Cache:
    """Copies by channel; their weights are together at most `most_weight`."""

    def __init__(self, most_weight: int) -> None:
        self._most_weight = most_weight
        self._copies: OrderedDict[bytes, Copy] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._copies)

    def copies(self) -> Iterator[Copy]:
        """All of them, the one used longest ago first."""
        return iter(self._copies.values())

    @property
    def weight(self) -> int:
        """What all copies weigh."""
        return self._weight

    def take(self, channel: bytes) -> Copy | None:
        """A channel's copy, which is not here any more then."""
        copy = self._copies.pop(channel, None)
        if copy is not None:
            self._weight -= copy.weight
        return copy

    def put(self, channel: bytes, copy: Copy) -> None:
        """Keep a copy as the newest; others go for it, and it is not kept when it is too heavy by itself."""
        self.take(channel)
        if copy.weight > self._most_weight:
            return
        self._copies[channel] = copy
        self._weight += copy.weight
        while self._weight > self._most_weight:
            _, oldest = self._copies.popitem(last=False)
            self._weight -= oldest.weight
