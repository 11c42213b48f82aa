"""The transport's operating errors."""

from __future__ import annotations

from culm_connectors.errors import ConnectorError
from culm_connectors.transport.interface import CloseReason


class TransportError(ConnectorError, code="transport"):
    """Any operating error of the transport."""


class AddressError(TransportError, code="transport.address"):
    """A host name that does not resolve, or an address that cannot be bound."""


class IdentityError(TransportError, code="transport.identity"):
    """A certificate that proves no peer id, or a malformed private key."""


class ConnectionClosedError(TransportError, code="transport.closed"):
    """The connection ended with `reason`."""

    def __init__(self, reason: CloseReason) -> None:
        super().__init__(f"connection closed ({reason})")
        self.reason = reason


class ConnectError(TransportError, code="transport.connect"):
    """A dialled server did not accept the connection; `reason` is its answer, if there was one."""

    def __init__(self, message: str, reason: CloseReason | None = None, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class StreamResetError(TransportError, code="transport.stream_reset"):
    """The remote reset a stream that we read; `stream_code` is the code that it sent."""

    def __init__(self, stream_id: int, stream_code: int) -> None:
        super().__init__(f"stream {stream_id} was reset by the remote (0x{stream_code:x})")
        self.stream_code = stream_code


class StreamStoppedError(TransportError, code="transport.stream_stopped"):
    """The stream accepts no more bytes: the remote stopped it, or this side reset or finished it."""

    def __init__(self, stream_id: int, text: str) -> None:
        super().__init__(f"stream {stream_id} {text}")
