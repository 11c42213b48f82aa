"""Limit on catch-up: a bounded number of remotes at a time, the others in the order in which they asked.

A session that catches up costs memory and processor time until it is live; one remote with many sessions
takes one turn, so that nobody comes first by asking more often. A remote that has a turn never waits here
for another one, so no two can wait for each other. A turn that lasts too long no longer counts.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class CatchUpLimiter:
    """At most `count` remotes have a turn, except where a turn has lasted longer than `turn_s`."""

    def __init__(self, count: int, turn_s: float) -> None:
        assert count >= 1 and turn_s > 0, "somebody has a turn, for some time"
        self._count = count
        self._turn_s = turn_s
        self._holders: OrderedDict[bytes, float] = OrderedDict()
        """Start time of each turn, oldest first, without turns that lasted too long."""
        # A remote is here twice while another connection of it takes the place of the first.
        self._waiting: OrderedDict[asyncio.Future[None], bytes] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Number of remotes that wait for a turn."""
        return len(self._waiting)

    def has(self, remote: bytes) -> bool:
        """Whether a remote has a turn that counts."""
        return remote in self._holders

    async def take(self, remote: bytes, now_s: float) -> None:
        """Return when the remote has a turn; cancel it to give up waiting."""
        if remote in self._holders:
            return
        if len(self._holders) < self._count and not self._waiting:
            self._holders[remote] = now_s
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = remote
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(turn, None) is None:
                # The turn had come already.
                self.give_back(remote, now_s)
            raise

    def give_back(self, remote: bytes, now_s: float) -> None:
        """End the remote's turn; without effect if it has none."""
        if self._holders.pop(remote, None) is not None:
            self._admit(now_s)

    def pass_time(self, now_s: float) -> None:
        """Give turns to waiting remotes in place of turns that have lasted too long."""
        while self._waiting and self._holders:
            oldest, began_s = next(iter(self._holders.items()))
            if now_s - began_s < self._turn_s:
                return
            del self._holders[oldest]
            self._admit(now_s)

    def _admit(self, now_s: float) -> None:
        while self._waiting and len(self._holders) < self._count:
            turn, remote = self._waiting.popitem(last=False)
            if not turn.cancelled():
                self._holders.setdefault(remote, now_s)
                turn.set_result(None)
