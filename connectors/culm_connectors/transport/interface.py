"""What a protocol driver sees of the network, in two interfaces.

`ByteChannel` is one ordered duplex of bytes: TCP, TLS over TCP, one QUIC stream, a pair in memory.
`Connection` is many streams with one proven peer, with acknowledgement and close codes: QUIC and libp2p.

A driver imports these names and what opens them, never the QUIC library. Every method belongs to the event
loop's thread. Byte counts and offsets count stream bytes unless said otherwise.
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
    """Who ended a connection."""

    LOCAL = "local"
    REMOTE = "remote"
    LOST = "lost"
    """No close was exchanged: the remote answers no more, or says that it has forgotten the connection."""


@dataclass(frozen=True, slots=True)
class CloseReason:
    """How a connection ended. `code` is a `CloseCode` where `application`, else one of QUIC's own."""

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
    """The answer of an authorisation that says no: what the remote is told before it is closed."""

    text: str
    code: int = CloseCode.IDENTITY

    @property
    def code_when_revoked(self) -> int:
        """What a connection is closed with that was let in before and would not be any more."""
        return CloseCode.REVOKED if self.code == CloseCode.IDENTITY else self.code


Authorise = Callable[[bytes, Address], Refusal | None]
"""Judges a proven peer id (32 bytes) and the address it came from. Called on every handshake: be quick."""


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
        """Say that no more comes; what was written is still delivered."""
        ...

    def reset(self, code: int) -> None:
        """Give the stream up: what is not yet delivered may be lost."""
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
        """Ask the remote to stop; what still comes is dropped."""
        ...


class Connection(Protocol):
    """A connection to one remote whose key is proven."""

    @property
    def peer_id(self) -> bytes:
        """The remote's Ed25519 public key, 32 bytes, proven by the handshake."""
        ...

    @property
    def remote_address(self) -> Address:
        """Where the remote sends from."""
        ...

    @property
    def dialled(self) -> bool:
        """True where this side called `connect`."""
        ...

    @property
    def close_reason(self) -> CloseReason | None:
        """How the connection ended; `None` while it lives."""
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
        """Wait until the connection has ended, whoever ended it."""
        ...

    async def close(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Finish all our streams, wait (bounded) until the remote has what was written, then close.

        Returns once the connection's resources are free. Harmless when it has already ended.
        """
        ...

    def abort(self, code: int, reason: str = "") -> None:
        """Close at once; what the remote has not acknowledged is given up."""
        ...


ConnectionHandler = Callable[[Connection], Awaitable[None]]
"""Serves one accepted connection; the connection is closed when it returns or raises."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a listener does for one application protocol: who serves a connection, and who may come in."""

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
        """Who is at the other end, as far as that is proven."""
        ...

    @property
    def remote_address(self) -> Address:
        """Where the remote sends from."""
        ...

    @property
    def close_reason(self) -> CloseReason | None:
        """How the channel ended; `None` while either direction lives."""
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
        """Say that no more comes; what was written is still delivered, and reading goes on."""
        ...

    async def close(self) -> None:
        """Finish, wait (bounded) until the remote has what was written, then let go. Harmless when ended."""
        ...

    def abort(self, reason: str = "") -> None:
        """End both directions at once; what is on its way may be lost. The remote sees no orderly end."""
        ...

    async def wait_closed(self) -> CloseReason:
        """Wait until both directions have ended, whoever ended them."""
        ...


ChannelHandler = Callable[[ByteChannel], Awaitable[None]]
"""Serves one accepted channel; the channel is closed when it returns, and aborted when it raises."""

AuthorisePrincipal = Callable[[Principal], Refusal | None]
"""Judges who is behind a channel, once it is known. Be quick."""
