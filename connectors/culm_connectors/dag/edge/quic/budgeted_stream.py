"""A stream of one key, read no faster than all of its streams together may be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from culm_connectors.edge.budgets import PrincipalBudget
from culm_connectors.transport.interface import ReceiveStream, SendStream


class BudgetedStream:
    """A stream that is read as fast as the budget of its key allows, and behind `until_allowed`."""

    def __init__(
        self, stream: ReceiveStream, budget: PrincipalBudget, until_allowed: Callable[[], Awaitable[None]]
    ) -> None:
        self._stream = stream
        self._budget = budget
        self._until_allowed = until_allowed
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
        await self._until_allowed()
        data = await self._stream.read(max_bytes)
        self.received_bytes += len(data)
        self._pause_s = self._budget.wait_s(time.monotonic(), len(data))
        return data

    def stop(self, code: int) -> None:
        """See `ReceiveStream`."""
        self._stream.stop(code)
