"""One stream of a connection as a `ByteChannel`: its two directions, and the proven key behind it."""

from __future__ import annotations

import asyncio

from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.end import ChannelEnd
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import (
    Address,
    Buffer,
    ChannelStatistics,
    CloseOrigin,
    CloseReason,
    Connection,
    ReceiveStream,
    SendStream,
)
from culm_connectors.transport.principal import Principal


class StreamChannel:
    """Implements `ByteChannel` over a bidirectional stream. The connection outlives the channel."""

    def __init__(
        self, connection: Connection, send: SendStream, receive: ReceiveStream, close_timeout_s: float = 5.0
    ) -> None:
        self.principal = Principal.of_key(connection.peer_id, connection.remote_address)
        self._connection = connection
        self._send = send
        self._receive = receive
        self._close_timeout_s = close_timeout_s
        self._end = ChannelEnd()
        self._received_bytes = 0
        self._remote_finished = False
        self._finished = False

    @property
    def remote_address(self) -> Address:
        """The address that the remote sends from."""
        return self._connection.remote_address

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the channel ended; `None` while either direction is open."""
        return self._end.reason or self._connection.close_reason

    def statistics(self) -> ChannelStatistics:
        """Counters of this moment; unread bytes are counted for the whole connection."""
        return ChannelStatistics(
            self._received_bytes,
            self._send.written,
            self._connection.statistics().unread_bytes,
            self._send.written - self._send.acknowledged,
        )

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """Take 1 to `max_bytes` bytes."""
        if not self._remote_finished:
            self._end.check()
        try:
            data = await self._receive.read(max_bytes)
        except TransportError as error:
            self._end.set(CloseOrigin.LOST, str(error), CloseCode.INTERNAL)
            raise
        if not data and self._end.reason is None:
            self._remote_finished = True
            self._settle()
        self._received_bytes += len(data)
        return data

    async def write(self, data: Buffer) -> None:
        """Queue all of `data`, waiting while the send bound is reached."""
        if self._end.reason is not None and not self._finished:
            self._end.check()
        await self._send.write(data)

    def finish(self) -> None:
        """End this side's direction."""
        self._finished = True
        self._send.finish()
        self._settle()

    def _settle(self) -> None:
        if self._finished and self._remote_finished:
            self._end.set(CloseOrigin.REMOTE)

    async def close(self) -> None:
        """Finish, and wait (bounded) until the remote has received all data."""
        if self.close_reason is None:
            self.finish()
            try:
                async with asyncio.timeout(self._close_timeout_s):
                    await self._send.wait_acknowledged(self._send.written)
            except (TransportError, TimeoutError):
                self._send.reset(CloseCode.NORMAL)
        self._receive.stop(CloseCode.NORMAL)
        self._end.set(CloseOrigin.LOCAL)

    def abort(self, reason: str = "") -> None:
        """End both directions at once."""
        if self.close_reason is None:
            self._end.set(CloseOrigin.LOCAL, reason, CloseCode.INTERNAL)
            self._send.reset(CloseCode.INTERNAL)
            self._receive.stop(CloseCode.INTERNAL)

    async def wait_closed(self) -> CloseReason:
        """Wait until both directions, or the connection, have ended."""
        waiting = [
            asyncio.ensure_future(self._end.wait()),
            asyncio.ensure_future(self._connection.wait_closed()),
        ]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for task in waiting:
                task.cancel()
