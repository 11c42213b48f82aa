"""The edge's transports, behind two small interfaces.

- `interface`: the drivers' interfaces: `ByteChannel`, one duplex of bytes; `Connection`, streams with a peer
- `principal`: the identity behind a connection; `identity`: one Ed25519 key per side
- `codes`: the close codes on the wire; `errors`; `settings`; `reconnect`: repeated dialling with backoff
- `quic/`: QUIC: `serve`, the accepting side, and `connect`, the dialling side; not imported here, because the
  settings and errors of the transports are also read without the QUIC library
- `libp2p/`: libp2p over QUIC, as p2panda's nodes use it
- `tcp/`: TCP and TLS over TCP
- `stream_channel`: one stream as a channel; `memory`: a channel in memory; `end`: the end of a channel
"""

from culm_connectors.transport.codes import CloseCode
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
from culm_connectors.transport.settings import TransportSettings

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
    "ReceiveStream",
    "Refusal",
    "SendStream",
    "Service",
    "StreamResetError",
    "StreamStoppedError",
    "TransportError",
    "TransportSettings",
]
