"""The edge's transport: QUIC connections with proven peers, behind one small interface.

- `interface`: what a driver sees: `Connection`, `SendStream`, `ReceiveStream`, `CloseReason`, `Refusal`
- `listener`: `serve`, the accepting side, and its authorisation; `admission`: whom it hears out at all
- `dial`: `connect`, the calling side
- `identity`: one Ed25519 key a side; `codes`: the close codes on the wire; `errors`
- `connection`, `streams`: the interface on top of the library; `pump`: its datagrams and timer;
  `endpoint`: the UDP socket; `turns`: which connection is read next; `liveness`: whether the remote is
  still there
- `quic`, `bounds`, `received_ranges`, `path_mtu`: the modules that know the inside of the library;
  `configuration`: what it is told
- `probe`: how fast a bare stream is on this machine
"""

from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.dial import connect
from culm_connectors.transport.errors import (
    AddressError,
    ConnectError,
    ConnectionClosedError,
    IdentityError,
    StreamResetError,
    StreamStoppedError,
    TransportError,
)
from culm_connectors.transport.identity import Identity
from culm_connectors.transport.interface import (
    Address,
    Authorise,
    CloseOrigin,
    CloseReason,
    Connection,
    ConnectionHandler,
    ConnectionStatistics,
    ReceiveStream,
    Refusal,
    SendStream,
    Service,
)
from culm_connectors.transport.listener import Listener, allow_everybody, serve
from culm_connectors.transport_settings import TransportSettings

__all__ = [
    "Address",
    "AddressError",
    "Authorise",
    "CloseCode",
    "CloseOrigin",
    "CloseReason",
    "ConnectError",
    "Connection",
    "ConnectionClosedError",
    "ConnectionHandler",
    "ConnectionStatistics",
    "Identity",
    "IdentityError",
    "Listener",
    "ReceiveStream",
    "Refusal",
    "SendStream",
    "Service",
    "StreamResetError",
    "StreamStoppedError",
    "TransportError",
    "TransportSettings",
    "allow_everybody",
    "connect",
    "serve",
]
