"""A channel within one process that is bounded and ends like a real one; for tests and simulations."""

from __future__ import annotations

import asyncio

from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.end import ChannelEnd
from culm_connectors.transport.errors import StreamStoppedError
from culm_connectors.transport.interface import (
    Address,
    Buffer,
    ChannelStatistics,
    CloseOrigin,
    CloseReason,
)
from culm_connectors.transport.principal import Principal

DEFAULT_BOUND_BYTES = 64 * 1024
_NOWHERE: Address = ("127.0.0.1", 0)


class _Pipe:
    """One direction: bytes that were written and are not read yet, at most `bound_bytes`."""

    def __init__(self, bound_bytes: int) -> None:
        self.bound_bytes = bound_bytes
        self.held = bytearray()
        self.passed_bytes = 0
        self.is_finished = False
        self.changed = asyncio.Event()


class MemoryChannel:
    """Implements `ByteChannel`; `memory_pair` makes two of them."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe, end: ChannelEnd, remote_end: ChannelEnd) -> None:
        self.principal = Principal.of_address(_NOWHERE)
        self.remote_address = _NOWHERE
        self._in = incoming
        self._out = outgoing
        self._end = end
        self._other = remote_end

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the channel ended; `None` while either direction is open."""
        return self._end.reason

    def statistics(self) -> ChannelStatistics:
        """Counters of this moment."""
        return ChannelStatistics(
            self._in.passed_bytes, self._out.passed_bytes, len(self._in.held), len(self._out.held)
        )

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """Take 1 to `max_bytes` bytes."""
        while not self._in.held:
            if self._in.is_finished:
                return b""
            self._end.check()
            self._in.changed.clear()
            await self._in.changed.wait()
        data = bytes(self._in.held[:max_bytes])
        del self._in.held[:max_bytes]
        self._in.changed.set()
        self._settle()
        return data

    async def write(self, data: Buffer) -> None:
        """Queue all of `data`, waiting while the bound is reached."""
        rest = memoryview(data)
        while rest:
            self._end.check()
            if self._out.is_finished:
                raise StreamStoppedError(0, "was finished")
            capacity = self._out.bound_bytes - len(self._out.held)
            if capacity <= 0:
                self._out.changed.clear()
                await self._out.changed.wait()
                continue
            self._out.held += rest[:capacity]
            self._out.passed_bytes += len(rest[:capacity])
            rest = rest[capacity:]
            self._out.changed.set()

    def finish(self) -> None:
        """End this side's direction."""
        if self._end.reason is None:
            self._out.is_finished = True
            self._out.changed.set()
            self._settle()

    def _settle(self) -> None:
        if self._in.is_finished and self._out.is_finished and not self._in.held and not self._out.held:
            self._end.set(CloseOrigin.REMOTE)
            self._other.set(CloseOrigin.REMOTE)

    async def close(self) -> None:
        """Finish, and wait until the other end has read everything."""
        self.finish()
        while self._out.held and self._end.reason is None:
            self._out.changed.clear()
            await self._out.changed.wait()
        self._end.set(CloseOrigin.LOCAL)
        self._in.changed.set()

    def abort(self, reason: str = "") -> None:
        """End both directions at once."""
        self._end.set(CloseOrigin.LOCAL, reason, CloseCode.INTERNAL)
        self.vanish("aborted by the remote")

    def vanish(self, reason: str = "the remote answers no more") -> None:
        """End the channel for the other end as if this end had disappeared."""
        self._other.set(CloseOrigin.LOST, reason, CloseCode.INTERNAL)
        for pipe in (self._in, self._out):
            pipe.changed.set()

    async def wait_closed(self) -> CloseReason:
        """Wait until both directions have ended."""
        return await self._end.wait()


def memory_pair(bound_bytes: int = DEFAULT_BOUND_BYTES) -> tuple[MemoryChannel, MemoryChannel]:
    """Return the two ends of one channel with at most `bound_bytes` unread bytes in each direction."""
    there, back = _Pipe(bound_bytes), _Pipe(bound_bytes)
    first, second = ChannelEnd(), ChannelEnd()
    return MemoryChannel(back, there, first, second), MemoryChannel(there, back, second, first)
