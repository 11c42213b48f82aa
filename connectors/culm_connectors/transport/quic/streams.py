"""The two directions of a stream: a writer with a bound and a reader that grants credit as it takes."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from itertools import count
from typing import Protocol

from aioquic.quic.stream import QuicStreamSender

from culm_connectors.transport.errors import ConnectionClosedError, StreamResetError, StreamStoppedError
from culm_connectors.transport.interface import Buffer, CloseReason
from culm_connectors.transport.quic.library import acknowledged_bytes
from culm_connectors.transport.settings import TransportSettings


class StreamOwner(Protocol):
    """The interface of a connection that its streams use."""

    @property
    def settings(self) -> TransportSettings:
        """The limits of the connection."""
        ...

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the connection ended; `None` while it is open."""
        ...

    def transmit_soon(self) -> None:
        """Transmit once, after everything that runs now has written what it has to write."""
        ...

    def taken(self, stream: QuicReceiveStream, count: int) -> None:
        """Grant the remote as many bytes as the driver has read from a stream."""
        ...

    def release(self, stream: QuicReceiveStream) -> None:
        """Nothing more will be read from a stream."""
        ...

    def stop_remote(self, stream: QuicReceiveStream, code: int) -> None:
        """Ask the remote to stop a stream."""
        ...


class QuicSendStream:
    """Implements `SendStream`. The library's buffer holds unacknowledged data, at most the send bound."""

    def __init__(
        self,
        connection: StreamOwner,
        stream_id: int,
        sender: QuicStreamSender,
        receive: QuicReceiveStream | None = None,
    ) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._sender = sender
        self._receive = receive
        self._bound = connection.settings.send_bound_bytes
        self._resume = connection.settings.send_resume_bytes
        self._written = 0
        self._finished = False
        self._ended_text: str | None = None
        self._is_writing = False
        self._capacity_freed: asyncio.Future[None] | None = None
        self._receipts: list[tuple[int, int, asyncio.Future[None]]] = []
        self._receipt_numbers = count()
        self._settled = asyncio.Event()

    @property
    def stream_id(self) -> int:
        """The number of the stream on its connection."""
        return self._stream_id

    @property
    def written(self) -> int:
        """Bytes written so far."""
        return self._written

    @property
    def acknowledged(self) -> int:
        """All bytes below this offset have reached the remote's QUIC stack."""
        return acknowledged_bytes(self._sender)

    @property
    def receive(self) -> QuicReceiveStream | None:
        """The other direction of a bidirectional stream."""
        return self._receive

    @property
    def is_settled(self) -> bool:
        """True once nothing more will happen: all delivered with the end, or given up."""
        return self._sender.is_finished or self._ended_text is not None

    async def write(self, data: Buffer) -> None:
        """Queue all of `data`, waiting while the send bound is reached."""
        assert not self._is_writing, "one task writes a stream"
        self._is_writing = True
        try:
            rest = memoryview(data)
            while rest:
                self._check()
                capacity = self._bound - (self._written - self.acknowledged)
                if capacity <= 0:
                    await self._wait_for_capacity()
                    continue
                part, rest = rest[:capacity], rest[capacity:]
                self._sender.write(part)  # type: ignore[arg-type]  # it copies any buffer into its own
                self._written += len(part)
                self._connection.transmit_soon()
        finally:
            self._is_writing = False

    async def wait_acknowledged(self, offset: int) -> None:
        """Return once all bytes below `offset` are acknowledged."""
        assert offset <= self._written, "a receipt for bytes that were not written"
        if self.acknowledged >= offset:
            return
        self._check(may_be_finished=True)
        receipt = asyncio.get_running_loop().create_future()
        heapq.heappush(self._receipts, (offset, next(self._receipt_numbers), receipt))
        await receipt

    async def wait_settled(self) -> None:
        """Return once all that was written and the end itself are acknowledged, or the stream is given up."""
        await self._settled.wait()

    def finish(self) -> None:
        """End the stream. Harmless when repeated, or when the stream has ended."""
        if self._finished or self._ended_text is not None or self._connection.close_reason is not None:
            return
        self._finished = True
        self._sender.write(b"", end_stream=True)
        self._wake_writer()
        self._connection.transmit_soon()

    def reset(self, code: int) -> None:
        """Abandon the stream."""
        if self.is_settled or self._connection.close_reason is not None:
            return
        self._sender.reset(code)
        self.end("was reset")
        self._connection.transmit_soon()

    def end(self, text: str) -> None:
        """End the stream for writing and wake its waiters with `StreamStoppedError`."""
        if self._ended_text is None:
            self._ended_text = text
        self._wake_all()

    def progress(self) -> None:
        """Wake the writer, if it has capacity again, and waiters for data that is now acknowledged."""
        acknowledged = self.acknowledged
        while self._receipts and self._receipts[0][0] <= acknowledged:
            receipt = heapq.heappop(self._receipts)[2]
            if not receipt.done():
                receipt.set_result(None)
        if self._written - acknowledged <= self._resume:
            self._wake_writer()
        if self.is_settled:
            self._settled.set()

    def connection_ended(self) -> None:
        """Wake all waiters after the end of the connection."""
        self._wake_all()

    def _check(self, *, may_be_finished: bool = False) -> None:
        reason = self._connection.close_reason
        if reason is not None:
            raise ConnectionClosedError(reason)
        if self._ended_text is not None:
            raise StreamStoppedError(self._stream_id, self._ended_text)
        if self._finished and not may_be_finished:
            raise StreamStoppedError(self._stream_id, "was finished")

    async def _wait_for_capacity(self) -> None:
        self._capacity_freed = asyncio.get_running_loop().create_future()
        try:
            await self._capacity_freed
        finally:
            self._capacity_freed = None

    def _wake_writer(self) -> None:
        if self._capacity_freed is not None and not self._capacity_freed.done():
            self._capacity_freed.set_result(None)

    def _wake_all(self) -> None:
        self._settled.set()
        self._wake_writer()
        for _, _, receipt in self._receipts:
            if receipt.done():
                continue
            reason = self._connection.close_reason
            if reason is not None:
                receipt.set_exception(ConnectionClosedError(reason))
            else:
                receipt.set_exception(StreamStoppedError(self._stream_id, self._ended_text or "ended"))
        self._receipts.clear()


class QuicReceiveStream:
    """Implements `ReceiveStream`: holds data received in order until the driver reads it."""

    def __init__(self, connection: StreamOwner, stream_id: int) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._chunks: deque[bytes] = deque()
        self._head = 0
        self._unread = 0
        self._ended = False
        self._reset_code: int | None = None
        self._dropping = False
        self._waiter: asyncio.Future[None] | None = None
        self.send: QuicSendStream | None = None

    @property
    def stream_id(self) -> int:
        """The number of the stream on its connection."""
        return self._stream_id

    @property
    def unread(self) -> int:
        """Bytes that wait for the driver."""
        return self._unread

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """Take 1 to `max_bytes` bytes; `b""` at the orderly end."""
        assert max_bytes > 0, "a read takes at least one byte"
        while not self._unread:
            if self._ended or self._dropping:
                return b""
            if self._reset_code is not None:
                raise StreamResetError(self._stream_id, self._reset_code)
            reason = self._connection.close_reason
            if reason is not None:
                raise ConnectionClosedError(reason)
            await self._wait()
        data = self._take(max_bytes)
        self._connection.taken(self, len(data))
        if self._ended and not self._unread:
            self._connection.release(self)
        return data

    def stop(self, code: int) -> None:
        """Ask the remote to stop; drop waiting data and data that still arrives."""
        if self._dropping or self._reset_code is not None:
            return
        self._dropping = True
        self._drop()
        if self._ended:
            self._connection.release(self)
        elif self._connection.close_reason is None:
            self._connection.stop_remote(self, code)
        self._wake()

    def feed(self, data: bytes, *, end: bool) -> None:
        """Add bytes received in order; `end` is set with the last bytes."""
        if end:
            self._ended = True
        if data:
            self._chunks.append(data)
            self._unread += len(data)
            if self._dropping:
                self._drop()
        if self._ended and not self._unread:
            self._connection.release(self)
        self._wake()

    def reset(self, code: int) -> None:
        """Process the remote's reset of the stream: unread data is dropped."""
        self._reset_code = code
        self._chunks.clear()
        self._unread = self._head = 0
        self._connection.release(self)
        self._wake()

    def connection_ended(self) -> None:
        """Wake the reader after the end of the connection."""
        self._wake()

    def _drop(self) -> None:
        dropped = self._unread
        self._chunks.clear()
        self._unread = self._head = 0
        if dropped:
            self._connection.taken(self, dropped)

    def _take(self, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        wanted = min(max_bytes, self._unread)
        self._unread -= wanted
        while wanted:
            chunk = self._chunks[0]
            available = len(chunk) - self._head
            if available <= wanted:
                parts.append(chunk[self._head :] if self._head else chunk)
                self._chunks.popleft()
                self._head = 0
                wanted -= available
            else:
                parts.append(chunk[self._head : self._head + wanted])
                self._head += wanted
                wanted = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _wait(self) -> None:
        assert self._waiter is None, "one task reads a stream"
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
