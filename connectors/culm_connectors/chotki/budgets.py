"""Budgets of one principal at an edge, over all of its sessions and beyond the end of the last one.

The sessions of a principal are read one at a time, so that opening many does not read more. Data above a rate
is read later; sessions above their limit are refused. The share of time also limits all principals of one
address together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.edge.budgets import OpenConnections, RememberedBudgets
from culm_connectors.edge.fair_turns import ShareOfTime, current_caller
from culm_connectors.rate_limit import TokenBucket
from culm_models.chotki import events

PIECE_BYTES: Final = 4 * 1024
"""Number of bytes that are processed before the rates are checked again."""
_SLICE_S: Final = 0.001
"""Longest processing of a principal's data before others have their turn."""
_MINUTE_S: Final = 60.0
_DONE: Final = object()


class ReplicaBudget:
    """Rates of one principal. `share`, its share of the connector's time, is common to all principals."""

    def __init__(self, settings: ChotkiEdgeSettings, now_s: float, share: ShareOfTime | None = None) -> None:
        def bucket(rate: float, burst: float) -> TokenBucket:
            return TokenBucket(rate, burst, updated_s=now_s)

        self.connections = OpenConnections(
            settings.max_connections_per_peer, settings.connections_per_minute, now_s
        )
        self.rejects = bucket(settings.rejects_per_minute / _MINUTE_S, max(1.0, settings.rejects_per_minute))
        self._bytes = bucket(settings.bytes_per_second, settings.burst_bytes)
        self._sent = bucket(settings.sent_bytes_per_second, settings.burst_sent_bytes)
        self._records = bucket(settings.records_per_second, settings.burst_records)
        self._syncs = bucket(settings.syncs_per_second, settings.burst_syncs)
        self._share = share or share_of_time(settings)
        self._turn = asyncio.Lock()
        self._seen_records = self._seen_syncs = 0

    def note(self, event: events.SessionEvent) -> None:
        """Count a session event towards the rates of records and syncs."""
        match event:
            case events.SyncOpened():
                self._seen_syncs += 1
                self._seen_records += 1
            case events.StateEntered():
                pass
            case _:
                self._seen_records += 1

    def to_send(self, size: int) -> float:
        """Charge bytes to be sent. Returns how long they have to wait, in seconds."""
        return self._sent.wait_s(size, time.monotonic())

    async def take_in(self, size: int, steps: Iterator[None]) -> float:
        """Process received bytes step by step. Returns the pause before the next read, in seconds."""
        is_done = False
        while not is_done:
            async with self._turn:
                begun_s = now_s = time.monotonic()
                while not is_done and now_s - begun_s < _SLICE_S:
                    is_done = next(steps, _DONE) is _DONE
                    now_s = time.monotonic()
                # The share has only a small burst: while the loop is busy all others wait at each of their
                # many steps.
                caller = current_caller()
                pause_s = 0.0 if caller is None else self._share.charge(caller, now_s - begun_s, now_s)
                await asyncio.sleep(pause_s)
        return self._wait_s(size, time.monotonic())

    def _wait_s(self, size: int, now_s: float) -> float:
        records, self._seen_records = self._seen_records, 0
        syncs, self._seen_syncs = self._seen_syncs, 0
        return max(
            self._bytes.wait_s(size, now_s),
            self._records.wait_s(records, now_s),
            self._syncs.wait_s(syncs, now_s),
        )


def share_of_time(settings: ChotkiEdgeSettings) -> ShareOfTime:
    """Return the share of the connector's time for one principal and for one address."""
    return ShareOfTime(settings.busy_share, settings.busy_burst_s)


def replica_budgets(settings: ChotkiEdgeSettings) -> RememberedBudgets[str, ReplicaBudget]:
    """Return the budgets of all principals."""
    share = share_of_time(settings)
    return RememberedBudgets(lambda now_s: ReplicaBudget(settings, now_s, share))
