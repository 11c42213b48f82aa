"""What one key may use of an SDS edge, over all of its connections and beyond the end of the last.

A budget outlives its connections, so that nobody gains by coming again. It is forgotten when others have come
since: a key costs nothing to make, so what bounds strangers altogether is the transport and the totals.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from culm_connectors.rate_limit import TokenBucket
from culm_connectors.sds.settings import SdsEdgeSettings

_MINUTE_S = 60.0


class PeerBudget:
    """Rates of one key, and what it holds now."""

    __slots__ = (
        "bytes",
        "catching_up",
        "connections",
        "joins",
        "looking_up",
        "lookups",
        "memberships",
        "messages",
        "rejects",
        "requests",
        "staged",
        "staged_bytes",
    )

    def __init__(self, settings: SdsEdgeSettings, now_s: float) -> None:
        self.connections = 0
        self.memberships = 0
        """Joins that are in force."""
        self.staged = 0
        """Records that wait for Kafka, and their size below."""
        self.staged_bytes = 0
        self.requests = 0
        """Fetches under way."""
        self.catching_up = asyncio.Semaphore(1)
        """One channel's past at a time, so that nobody takes the turns of others by joining many."""
        self.looking_up = asyncio.Semaphore(1)
        """One answer to a fetch in memory at a time."""
        self.messages = TokenBucket(settings.messages_per_second, settings.message_burst, updated_s=now_s)
        self.bytes = TokenBucket(settings.bytes_per_second, settings.burst_bytes, updated_s=now_s)
        self.joins = TokenBucket(settings.joins_per_second, settings.join_burst, updated_s=now_s)
        self.lookups = TokenBucket(settings.lookups_per_second, settings.lookup_burst, updated_s=now_s)
        self.rejects = TokenBucket(
            settings.rejects_per_minute / _MINUTE_S, max(1.0, settings.rejects_per_minute), updated_s=now_s
        )

    def release_request(self) -> None:
        """A fetch has been answered, or its member has left."""
        self.requests -= 1


class Budgets:
    """The budgets of all keys that are connected, and of `remembered_peers` that were."""

    def __init__(self, settings: SdsEdgeSettings) -> None:
        self._settings = settings
        self._connected: dict[bytes, PeerBudget] = {}
        self._left: OrderedDict[bytes, PeerBudget] = OrderedDict()

    def connect(self, peer_id: bytes, now_s: float) -> PeerBudget:
        """The budget of a key for one more connection of it; `disconnect` when that has ended."""
        budget = self._connected.get(peer_id)
        if budget is None:
            budget = self._left.pop(peer_id, None) or PeerBudget(self._settings, now_s)
            self._connected[peer_id] = budget
        budget.connections += 1
        return budget

    def disconnect(self, peer_id: bytes) -> None:
        """A connection of this key has ended."""
        budget = self._connected[peer_id]
        budget.connections -= 1
        if budget.connections:
            return
        self._left[peer_id] = self._connected.pop(peer_id)
        if len(self._left) > self._settings.remembered_peers:
            self._left.popitem(last=False)
