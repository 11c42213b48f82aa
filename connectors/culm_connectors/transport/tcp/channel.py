"""One TCP connection as a `ByteChannel`, with TLS if there is a session.

Reading stops at the receive bound, so that TCP's own window stops the remote; writing waits at the send
bound.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable

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
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_connectors.transport.tcp.tls import TlsSession

_WRITE_BYTES = 64 * 1024
_LOOKS_PER_TIMEOUT = 4
_KEEPALIVE_PROBES = 3
_RESET = struct.pack("ii", 1, 0)


class TcpChannel(asyncio.Protocol):
    """Implements `ByteChannel`. `accept` decides about it when the connection is made, before TLS;
    `established` is called once the remote is known, `ended` when the channel ends."""

    def __init__(
        self,
        settings: TcpSettings,
        tls: TlsSession | None,
        *,
        accept: Callable[[TcpChannel], bool] = lambda _: True,
        established: Callable[[TcpChannel], None],
        ended: Callable[[TcpChannel], None] = lambda _: None,
    ) -> None:
        self.remote_address: Address = ("", 0)
        self.is_established = False
        self._settings = settings
        self._tls = tls
        self._accept = accept
        self._on_established = established
        self._on_ended = ended
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._end = ChannelEnd()
        self._unread = bytearray()
        self._received_bytes = self._sent_bytes = 0
        self._reading_paused = False
        self._dropping = False
        self._remote_finished = False
        self._finished = False
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._seen = (0, 0)
        self._active_s = self._loop.time()

    # --- the driver's interface

    @property
    def principal(self) -> Principal:
        """The principal at the other end: the key of its certificate, else its address."""
        fingerprint = self._tls.fingerprint() if self._tls is not None and self.is_established else None
        if fingerprint is None:
            return Principal.of_address(self.remote_address)
        return Principal.of_tls_key(fingerprint, self.remote_address)

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the channel ended; `None` while either direction is open."""
        return self._end.reason

    def statistics(self) -> ChannelStatistics:
        """Counters of this moment."""
        return ChannelStatistics(
            self._received_bytes, self._sent_bytes, len(self._unread), self._unsent_bytes()
        )

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """Take 1 to `max_bytes` bytes."""
        while not self._unread:
            if self._remote_finished:
                return b""
            self._end.check()
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._reading_paused and len(self._unread) <= self._settings.receive_bound_bytes // 2:
            self._reading_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    async def write(self, data: Buffer) -> None:
        """Queue all of `data`, waiting while the send bound is reached."""
        rest = memoryview(data).cast("B")
        while rest:
            await self._writable.wait()
            self._end.check()
            if self._finished or self._transport is None:
                raise StreamStoppedError(0, "was finished")
            part, rest = rest[:_WRITE_BYTES], rest[_WRITE_BYTES:]
            self._sent_bytes += len(part)
            if self._tls is None:
                self._transport.write(part)
            else:
                self._tls.send(part)
                self._flush_tls()

    def finish(self) -> None:
        """End this side's direction."""
        if self._finished or self._end.reason is not None or self._transport is None:
            return
        self._finished = True
        try:
            if self._tls is not None:
                self._tls.finish()
                self._flush_tls()
            self._transport.write_eof()
        except (OSError, ssl.SSLError) as error:
            self._fail(str(error))
        self._writable.set()
        self._settle()

    async def close(self) -> None:
        """Finish, wait (bounded) for the remote's end, then release; data that still arrives is dropped."""
        if self._end.reason is None:
            self._dropping = True
            self._unread.clear()
            if self._reading_paused and self._transport is not None:
                self._reading_paused = False
                self._transport.resume_reading()
            self.finish()
            try:
                async with asyncio.timeout(self._settings.close_timeout_s):
                    await self._end.wait()
            except TimeoutError:
                self._reset("the remote did not end in time", CloseOrigin.LOCAL)
        await self._gone.wait()

    def abort(self, reason: str = "") -> None:
        """End both directions at once."""
        self._reset(reason, CloseOrigin.LOCAL)

    async def wait_closed(self) -> CloseReason:
        """Wait until both directions have ended."""
        return await self._end.wait()

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start TLS, if it is used, on the new connection."""
        assert isinstance(transport, asyncio.Transport), "TCP has two directions"
        self._transport = transport
        peername = transport.get_extra_info("peername") or ("", 0)
        self.remote_address = (peername[0], peername[1])
        transport.set_write_buffer_limits(self._settings.send_bound_bytes, self._settings.send_resume_bytes)
        self._set_options(transport.get_extra_info("socket"))
        if not self._accept(self):
            self._reset("too many connections", CloseOrigin.LOCAL)
        elif self._tls is None:
            self._establish()
        else:
            self._timer = self._loop.call_later(
                self._settings.handshake_timeout_s, self._fail, "the handshake did not end in time"
            )
            self._tls.handshake()
            self._flush_tls()

    def _set_options(self, connected: socket.socket) -> None:
        if (size := self._settings.socket_buffer_bytes) is not None:
            for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                connected.setsockopt(socket.SOL_SOCKET, buffer, size)
        apart_s = max(1, round(self._settings.keepalive_s / _KEEPALIVE_PROBES))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", round(self._settings.keepalive_s)),
            ("TCP_KEEPINTVL", apart_s),
            ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
        ):
            if (option := getattr(socket, name, None)) is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        """Process bytes from the network."""
        if self._end.reason is not None:
            return
        if self._tls is None:
            self._take(data)
            return
        try:
            for decrypted in self._tls.receive(data):
                self._take(decrypted)
        except ssl.SSLError as error:
            self._flush_tls()  # sends the TLS alert
            self._fail(f"TLS: {error.reason or error}")
            return
        self._flush_tls()
        if self._tls.is_established and not self.is_established:
            self._establish()
        if self._tls.remote_finished:
            self._finished_by_remote()

    def eof_received(self) -> bool:
        """Process the remote's end of data. Returns True: this side may still send."""
        if self._tls is None or self._tls.remote_finished:
            self._finished_by_remote()
        else:
            self._fail("the remote went without an end of TLS")
        return True

    def pause_writing(self) -> None:
        """Block writers: the send bound is reached."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Wake writers: there is capacity again."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Record the end of the connection."""
        if self._finished and self._remote_finished:
            self._over(CloseOrigin.REMOTE, "", CloseCode.NORMAL)
        else:
            self._over(CloseOrigin.LOST, str(error or "closed"), CloseCode.INTERNAL)
        self._gone.set()

    # --- inside

    def _take(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._dropping:
            return
        self._unread += data
        self._arrived.set()
        if len(self._unread) >= self._settings.receive_bound_bytes and not self._reading_paused:
            self._reading_paused = True
            if self._transport is not None:
                self._transport.pause_reading()

    def _establish(self) -> None:
        self.is_established = True
        if self._timer is not None:
            self._timer.cancel()
        self._look()
        self._on_established(self)

    def _look(self) -> None:
        """End a channel without progress for too long; while reading is paused, it does not count as idle."""
        now_s, seen = self._loop.time(), (self._received_bytes, self._sent_bytes - self._unsent_bytes())
        if seen != self._seen or self._reading_paused:
            self._seen, self._active_s = seen, now_s
        elif now_s - self._active_s >= self._settings.idle_timeout_s:
            self._fail("nothing moved for too long")
            return
        self._timer = self._loop.call_later(self._settings.idle_timeout_s / _LOOKS_PER_TIMEOUT, self._look)

    def _unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _flush_tls(self) -> None:
        assert self._tls is not None, "there is a session"
        data = self._tls.outgoing()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _finished_by_remote(self) -> None:
        self._remote_finished = True
        self._arrived.set()
        self._settle()

    def _settle(self) -> None:
        if self._finished and self._remote_finished and self._transport is not None:
            self._over(CloseOrigin.REMOTE, "", CloseCode.NORMAL)
            self._transport.close()

    def _fail(self, text: str) -> None:
        self._reset(text, CloseOrigin.LOST)

    def _reset(self, text: str, origin: CloseOrigin) -> None:
        if self._end.reason is not None or self._transport is None:
            return
        self._over(origin, text, CloseCode.INTERNAL)
        connected: socket.socket | None = self._transport.get_extra_info("socket")
        if connected is not None:
            # The remote must not take this for an orderly end.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _over(self, origin: CloseOrigin, text: str, code: int) -> None:
        if self._end.reason is not None:
            return
        self._end.set(origin, text, code)
        if self._timer is not None:
            self._timer.cancel()
        self._arrived.set()
        self._writable.set()
        self._on_ended(self)
