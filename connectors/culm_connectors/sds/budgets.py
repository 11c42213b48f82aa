"""Budgets of an SDS edge: what one key may use, over all of its connections and after the last."""

from __future__ import annotations

import asyncio

from culm_connectors.edge.budgets import OpenConnections, RememberedBudgets
from culm_connectors.edge.intake import Share
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
    )

    def __init__(self, settings: SdsEdgeSettings, now_s: float) -> None:
        self.connections = OpenConnections(settings.max_connections_per_peer)
        self.memberships = 0
        """Joins that are in force."""
        self.staged = Share()
        """Records that wait for Kafka."""
        self.requests = 0
        """Fetches under way."""
        self.catching_up = asyncio.Semaphore(1)
        """Allows one channel's past at a time, so that a key with many channels takes no turns of others."""
        self.looking_up = asyncio.Semaphore(1)
        """One answer to a fetch in memory at a time."""
        self.messages = TokenBucket(settings.messages_per_second, settings.burst_messages, updated_s=now_s)
        self.bytes = TokenBucket(settings.bytes_per_second, settings.burst_bytes, updated_s=now_s)
        self.joins = TokenBucket(settings.joins_per_second, settings.burst_joins, updated_s=now_s)
        self.lookups = TokenBucket(settings.lookups_per_second, settings.burst_lookups, updated_s=now_s)
        self.rejects = TokenBucket(
            settings.rejects_per_minute / _MINUTE_S, max(1.0, settings.rejects_per_minute), updated_s=now_s
        )

    def release_request(self) -> None:
        """End a fetch that was answered or whose member has left."""
        self.requests -= 1


def edge_budgets(settings: SdsEdgeSettings) -> RememberedBudgets[bytes, PeerBudget]:
    """Return the budgets of all keys."""
    return RememberedBudgets(
        lambda now_s: PeerBudget(settings, now_s), remembered=settings.max_remembered_peers
    )
