"""The two interfaces through which a protocol driver uses the network.

`ByteChannel` is one ordered duplex of bytes: TCP, TLS over TCP, one QUIC stream, a pair in memory.
`Connection` is many streams with one proven peer, with acknowledgement and close codes: QUIC and libp2p.

A driver imports these names and the functions that open them, never the QUIC library. Every method must be
called on the event loop's thread. Byte counts and offsets count stream bytes unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from culm_connectors.transport.codes import CloseCode, describe
from culm_connectors.transport.principal import Principal

Address = tuple[str, int]
"""Host and port, as numbers; IPv6 hosts without brackets."""

Buffer = bytes | bytearray | memoryview


class CloseOrigin(StrEnum):
    """The side that ended a connection."""

    LOCAL = "local"
    REMOTE = "remote"
    LOST = "lost"
    """No close was exchanged: the remote stopped answering, or reported that it forgot the connection."""


@dataclass(frozen=True, slots=True)
class CloseReason:
    """The end of a connection. `code` is a `CloseCode` if `application` is true, else one of QUIC's own."""

    code: int
    text: str
    origin: CloseOrigin
    application: bool

    def __str__(self) -> str:
        text = f": {self.text}" if self.text else ""
        if self.origin == CloseOrigin.LOST:
            return f"{self.origin.value}{text}"
        return f"{self.origin.value}, {describe(self.code, application=self.application)}{text}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A negative answer of an authorisation: the text and code that the remote receives with the close."""

    text: str
    code: int = CloseCode.IDENTITY

    @property
    def code_when_revoked(self) -> int:
        """The close code for a connection that was accepted earlier and would be refused now."""
        return CloseCode.REVOKED if self.code == CloseCode.IDENTITY else self.code


Authorise = Callable[[bytes, Address], Refusal | None]
"""Authorises a proven peer id (32 bytes) and its address. Called on every handshake, so it must be fast."""


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """Counters of one connection at one moment."""

    received_bytes: int
    """UDP payload taken from the remote."""
    sent_bytes: int
    """UDP payload sent to the remote, repeats included."""
    unread_bytes: int
    """Stream bytes received in order and not yet read by the driver; bounded by the receive windows."""
    unsent_bytes: int
    """Stream bytes written and not yet acknowledged by the remote's QUIC stack."""
    round_trip_ms: float
    """Smoothed round-trip time; 0 before the first measurement."""


class SendStream(Protocol):
    """One direction of a stream that this side writes; one task writes it."""

    @property
    def stream_id(self) -> int:
        """The number of the stream on its connection."""
        ...

    @property
    def written(self) -> int:
        """Bytes written so far: the offset that the next byte will have."""
        ...

    @property
    def acknowledged(self) -> int:
        """All bytes below this offset have reached the remote's QUIC stack (not: its application)."""
        ...

    @property
    def receive(self) -> ReceiveStream | None:
        """The other direction of a bidirectional stream."""
        ...

    async def write(self, data: Buffer) -> None:
        """Queue all of `data`; waits while the send bound is reached. Many messages in one call are cheap.

        Errors: `ConnectionClosedError`, `StreamStoppedError`.
        """
        ...

    async def wait_acknowledged(self, offset: int) -> None:
        """Return once `acknowledged >= offset`. Errors as `write`."""
        ...

    def finish(self) -> None:
        """End this direction; data already written is still delivered."""
        ...

    def reset(self, code: int) -> None:
        """Abandon the stream; data that is not delivered yet may be lost."""
        ...


class ReceiveStream(Protocol):
    """One direction of a stream that the remote writes; one task reads it."""

    @property
    def stream_id(self) -> int:
        """The number of the stream on its connection."""
        ...

    @property
    def send(self) -> SendStream | None:
        """The other direction of a bidirectional stream."""
        ...

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """Take 1 to `max_bytes` bytes; `b""` once the remote has finished and all was taken.

        The remote may send on only as bytes are taken here. Bytes received before the connection ended are
        still handed out. Errors: `ConnectionClosedError` where the end was not orderly, `StreamResetError`.
        """
        ...

    def stop(self, code: int) -> None:
        """Ask the remote to stop; data that still arrives is dropped."""
        ...


class Connection(Protocol):
    """A connection to one remote whose key is proven."""

    @property
    def peer_id(self) -> bytes:
        """The remote's Ed25519 public key, 32 bytes, proven by the handshake."""
        ...

    @property
    def remote_address(self) -> Address:
        """The address that the remote sends from."""
        ...

    @property
    def dialled(self) -> bool:
        """True if this side called `connect`."""
        ...

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the connection ended; `None` while it is open."""
        ...

    def statistics(self) -> ConnectionStatistics:
        """Counters of this moment."""
        ...

    async def open_stream(self, bidirectional: bool = False) -> SendStream:
        """Open a stream of ours. The remote sees it with its first bytes."""
        ...

    async def accept_stream(self) -> ReceiveStream:
        """Wait for the next stream that the remote opens. Error: `ConnectionClosedError`."""
        ...

    async def wait_closed(self) -> CloseReason:
        """Wait until either side has ended the connection."""
        ...

    async def close(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Finish all our streams, wait (bounded) until the remote has received all data, then close.

        Returns once the connection's resources are free. Harmless when it has already ended.
        """
        ...

    def abort(self, code: int, reason: str = "") -> None:
        """Close at once; data that the remote has not acknowledged is abandoned."""
        ...


ConnectionHandler = Callable[[Connection], Awaitable[None]]
"""Serves one accepted connection; the connection is closed when it returns or raises."""


@dataclass(frozen=True, slots=True)
class Service:
    """A listener's callbacks for one application protocol: connection handler and authorisation."""

    on_connection: ConnectionHandler
    authorise: Authorise


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Counters of one channel at one moment, in bytes of its two directions."""

    received_bytes: int
    sent_bytes: int
    unread_bytes: int
    """Received and not yet read; bounded."""
    unsent_bytes: int
    """Written and still held on this side; bounded."""


class ByteChannel(Protocol):
    """One ordered duplex of bytes with one remote. One task reads it, one writes it."""

    @property
    def principal(self) -> Principal:
        """The principal at the other end, as far as it is proven."""
        ...

    @property
    def remote_address(self) -> Address:
        """The address that the remote sends from."""
        ...

    @property
    def close_reason(self) -> CloseReason | None:
        """The reason for which the channel ended; `None` while either direction is open."""
        ...

    def statistics(self) -> ChannelStatistics:
        """Counters of this moment."""
        ...

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """Take 1 to `max_bytes` bytes; `b""` once the remote has finished and all was taken.

        The remote may send on only as bytes are taken here. Error: `TransportError` where the end was not
        orderly, after what came before it.
        """
        ...

    async def write(self, data: Buffer) -> None:
        """Queue all of `data`; waits while the send bound is reached. Error: `TransportError`."""
        ...

    def finish(self) -> None:
        """End this side's direction; data already written is still delivered, and reading goes on."""
        ...

    async def close(self) -> None:
        """Finish, wait (bounded) until the remote has all data, then release. Harmless when ended."""
        ...

    def abort(self, reason: str = "") -> None:
        """End both directions at once; data in transit may be lost. The remote sees no orderly end."""
        ...

    async def wait_closed(self) -> CloseReason:
        """Wait until both directions have ended, for any reason."""
        ...


ChannelHandler = Callable[[ByteChannel], Awaitable[None]]
"""Serves one accepted channel; the channel is closed when it returns, and aborted when it raises."""

AuthorisePrincipal = Callable[[Principal], Refusal | None]
"""Authorises the principal behind a channel once it is known; must be fast."""
