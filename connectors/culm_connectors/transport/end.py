"""The end of a channel: orderly if both directions were finished, otherwise with one reason."""

from __future__ import annotations

import asyncio

from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import ConnectionClosedError
from culm_connectors.transport.interface import CloseOrigin, CloseReason

_MAX_SHOWN_REASON = 200


class ChannelEnd:
    """The end of one channel: no reason while it is open, then one reason that does not change."""

    def __init__(self) -> None:
        self.reason: CloseReason | None = None
        self._ended = asyncio.Event()

    def set(self, origin: CloseOrigin, text: str = "", code: int = CloseCode.NORMAL) -> None:
        """Record that the channel has ended; only the first reason counts."""
        if self.reason is None:
            self.reason = CloseReason(code, text[:_MAX_SHOWN_REASON], origin, application=True)
            self._ended.set()

    def check(self) -> None:
        """Raise `ConnectionClosedError` if the channel has ended."""
        if self.reason is not None:
            raise ConnectionClosedError(self.reason)

    async def wait(self) -> CloseReason:
        """Wait until the channel has ended and return the reason."""
        await self._ended.wait()
        assert self.reason is not None, "the reason is set with the event"
        return self.reason
