"""What one key may use of an edge over QUIC, over all of its connections: how many, how often, and bytes.

Nobody is dropped for it: more connections are refused, and more data is read later.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Final

from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.edge.rate_limit import TokenBucket
from culm_connectors.transport.interface import ReceiveStream, SendStream

_MINUTE_S: Final = 60.0
_REMEMBERED: Final = 4_096


class KeyBudget:
    """Of one key."""

    def __init__(self, settings: DagEdgeSettings) -> None:
        now_s, per_minute = time.monotonic(), settings.connections_per_minute
        self.connections = 0
        """Those that are open."""
        self.begun = TokenBucket(per_minute / _MINUTE_S, max(1.0, per_minute), updated_s=now_s)
        self._bytes = TokenBucket(settings.bytes_per_second, settings.burst_bytes, updated_s=now_s)

    def wait_s(self, size: int) -> float:
        """So many bytes came: for how long nothing more is read."""
        return self._bytes.wait_s(size, time.monotonic())


class KeyBudgets:
    """Of all keys that are connected, and of the last thousands that were."""

    def __init__(self, settings: DagEdgeSettings) -> None:
        self._settings = settings
        self._known: OrderedDict[bytes, KeyBudget] = OrderedDict()

    def begin(self, key: bytes) -> KeyBudget | None:
        """One more connection of a key, until `end`; None where it has too many, or too often."""
        budget = self._known.pop(key, None) or KeyBudget(self._settings)
        self._known[key] = budget
        while len(self._known) > _REMEMBERED:
            idle = next((one for one, found in self._known.items() if not found.connections), None)
            if idle is None or idle == key:
                break
            del self._known[idle]
        is_allowed = budget.connections < self._settings.max_connections_per_peer and budget.begun.take(
            1, time.monotonic()
        )
        if not is_allowed:
            return None
        budget.connections += 1
        return budget

    def end(self, budget: KeyBudget) -> None:
        """One connection has ended."""
        budget.connections -= 1


class BudgetedStream:
    """A stream that is read as fast as the budget of its key allows."""

    def __init__(self, stream: ReceiveStream, budget: KeyBudget) -> None:
        self._stream = stream
        self._budget = budget
        self._pause_s = 0.0
        self.received_bytes = 0

    @property
    def stream_id(self) -> int:
        """See `ReceiveStream`."""
        return self._stream.stream_id

    @property
    def send(self) -> SendStream | None:
        """See `ReceiveStream`."""
        return self._stream.send

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """See `ReceiveStream`."""
        if self._pause_s > 0:
            await asyncio.sleep(self._pause_s)
        data = await self._stream.read(max_bytes)
        self.received_bytes += len(data)
        self._pause_s = self._budget.wait_s(len(data))
        return data

    def stop(self, code: int) -> None:
        """See `ReceiveStream`."""
        self._stream.stop(code)
