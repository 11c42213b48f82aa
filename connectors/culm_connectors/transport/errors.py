"""The transport's operating errors."""

from __future__ import annotations

from typing import ClassVar

from culm_connectors.errors import ConnectorError
from culm_connectors.transport.interface import CloseReason


class TransportError(ConnectorError):
    """Any operating error of the transport."""

    code: ClassVar[str] = "transport"


class AddressError(TransportError):
    """A host name that does not resolve, or an address that cannot be bound."""

    code: ClassVar[str] = "transport.address"


class IdentityError(TransportError):
    """A certificate that proves no peer id, or a private key that is none."""

    code: ClassVar[str] = "transport.identity"


class ConnectionClosedError(TransportError):
    """The connection ended; `reason` says how."""

    code: ClassVar[str] = "transport.closed"

    def __init__(self, reason: CloseReason) -> None:
        super().__init__(f"connection closed ({reason})")
        self.reason = reason


class ConnectError(TransportError):
    """A dialled server did not accept us; `reason` says how the attempt ended, where there was an answer."""

    code: ClassVar[str] = "transport.connect"

    def __init__(self, message: str, reason: CloseReason | None = None, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class StreamResetError(TransportError):
    """The remote gave up a stream that we read; `stream_code` is the code it sent."""

    code: ClassVar[str] = "transport.stream_reset"

    def __init__(self, stream_id: int, stream_code: int) -> None:
        super().__init__(f"stream {stream_id} was reset by the remote (0x{stream_code:x})")
        self.stream_code = stream_code


class StreamStoppedError(TransportError):
    """The stream takes no more bytes: the remote stopped it, or we reset or finished it."""

    code: ClassVar[str] = "transport.stream_stopped"

    def __init__(self, stream_id: int, text: str) -> None:
        super().__init__(f"stream {stream_id} {text}")
