"""A UDP socket on the event loop: reads datagrams in batches, sends without waiting.

asyncio's own datagram transport reads one datagram per turn of the loop; reading a batch lets a connection
act once on all of it, which about halves what a datagram costs.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from culm_connectors.transport.errors import AddressError
from culm_connectors.transport.interface import Address

_LOGGER = logging.getLogger(__name__)

_MAX_UDP_BYTES = 65_536
_BATCH_DATAGRAMS = 256
_MAX_QUEUED_DATAGRAMS = 4_096

# Linux, <linux/in.h> and <linux/in6.h>; the socket module does not define the names.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3

_BIND_HINTS = {
    errno.EADDRINUSE: "another process listens there: stop it, or give another port (0 takes a free one)",
    errno.EADDRNOTAVAIL: "this machine has no such address: give one of its own, or 0.0.0.0 for all of them",
    errno.EACCES: "this user may not listen there: give a port from 1024 on",
}


async def resolve(address: Address, *, passive: bool) -> tuple[socket.AddressFamily, Any]:
    """The family and socket address of `(host, port)`. Error: `AddressError`."""
    host, port = address
    flags = socket.AI_PASSIVE if passive else 0
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_DGRAM, flags=flags
        )
    except OSError as error:
        raise AddressError(f"{host!r} does not resolve: {error}", hint="check the host name") from error
    family, _, _, _, socket_address = addresses[0]
    return family, socket_address


class UdpEndpoint:
    """Owns one non-blocking UDP socket. `on_batch` gets the datagrams of one reading, in order."""

    def __init__(
        self,
        family: socket.AddressFamily,
        *,
        socket_buffer_bytes: int,
        on_batch: Callable[[list[tuple[bytes, Address]]], None],
        on_unreachable: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_batch = on_batch
        self._on_unreachable = on_unreachable
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(_MAX_UDP_BYTES)
        self._view = memoryview(self._buffer)
        self._queue: deque[tuple[bytes, Address | None]] = deque()
        self._connected = False
        self._closed = False
        self.dropped = 0
        """Number of datagrams that the kernel did not accept in time; QUIC retransmits their content."""
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, socket_buffer_bytes)
        self._forbid_fragments(family)

    def _forbid_fragments(self, family: socket.AddressFamily) -> None:
        # RFC 9000 section 14: a datagram that does not fit must fail, not be cut into IP fragments.
        try:
            if family == socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
            else:
                self._socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
        except OSError:
            _LOGGER.info("the socket does not take the option that forbids IP fragments")

    @property
    def address(self) -> Address:
        """The address to which the socket is bound."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def bind(self, socket_address: Any) -> None:
        """Listen at an address. Error: `AddressError`."""
        try:
            self._socket.bind(socket_address)
        except OSError as error:
            self._socket.close()
            raise AddressError(
                f"cannot listen on {socket_address[0]} port {socket_address[1]}: {error.strerror}",
                hint=_BIND_HINTS.get(error.errno or 0, "give another address to listen on"),
            ) from error
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def connect(self, socket_address: Any) -> None:
        """Use only one address; the kernel drops datagrams from others. Error: `AddressError`."""
        try:
            self._socket.connect(socket_address)
        except OSError as error:
            self._socket.close()
            raise AddressError(f"cannot reach {socket_address[0]}: {error.strerror}") from error
        self._connected = True
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def send(self, data: bytes, address: Address) -> None:
        """Send one datagram, now or as soon as the kernel takes it."""
        if self._closed:
            return
        target = None if self._connected else address
        if self._queue or not self._try_send(data, target):
            self._enqueue(data, target)

    def close(self) -> None:
        """Close the socket. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._queue.clear()
        self._socket.close()

    def _try_send(self, data: bytes, target: Address | None) -> bool:
        """Return True if the datagram is done with: sent or dropped."""
        try:
            if target is None:
                self._socket.send(data)
            else:
                self._socket.sendto(data, target)
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionRefusedError:
            self._loop.call_soon(self._on_unreachable)
        except OSError as error:
            self.dropped += 1
            if error.errno == errno.EMSGSIZE:
                # A probe, or the network has shrunk: the connection notices as it does where routers drop it.
                _LOGGER.debug("a datagram of %d bytes does not fit the network", len(data))
        return True

    def _enqueue(self, data: bytes, target: Address | None) -> None:
        if len(self._queue) >= _MAX_QUEUED_DATAGRAMS:
            self.dropped += 1
            return
        self._queue.append((data, target))
        if len(self._queue) == 1:
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        while self._queue:
            if not self._try_send(*self._queue[0]):
                return
            self._queue.popleft()
        self._loop.remove_writer(self._socket.fileno())

    def _on_readable(self) -> None:
        batch: list[tuple[bytes, Address]] = []
        for _ in range(_BATCH_DATAGRAMS):
            try:
                size, source = self._socket.recvfrom_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionRefusedError:
                self._loop.call_soon(self._on_unreachable)
                break
            except OSError:
                break
            batch.append((bytes(self._view[:size]), (source[0], source[1])))
        if batch:
            self._on_batch(batch)
