"""The two ends of libp2p over QUIC: `serve_libp2p` accepts, `dial_libp2p` calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from culm_connectors.transport import (
    Address,
    Authorise,
    Connection,
    ConnectionHandler,
    Listener,
    TransportSettings,
    allow_everybody,
    connect,
    serve,
)
from culm_connectors.transport.libp2p.certificate import Libp2pIdentity
from culm_connectors.transport.libp2p.connection import Libp2pConnection
from culm_connectors.transport.libp2p.multiaddr import Multiaddr

ALPN = "libp2p"


@asynccontextmanager
async def serve_libp2p(
    address: Address,
    identity: Libp2pIdentity,
    settings: TransportSettings,
    on_connection: ConnectionHandler,
    *,
    protocol: bytes,
    authorise: Authorise = allow_everybody,
) -> AsyncIterator[Listener]:
    """Accept peers that speak `protocol` over libp2p while the context lasts; as `serve` otherwise."""

    async def handle(connection: Connection) -> None:
        # A server bound to every address cannot tell which of them the remote could reach.
        listening = [] if listener.address[0] in ("0.0.0.0", "::") else [listener.address]
        await on_connection(Libp2pConnection(connection, identity.peer_id, protocol, listening))

    async with serve(address, identity, settings, handle, alpn=ALPN, authorise=authorise) as listener:
        yield listener


async def dial_libp2p(
    to: Multiaddr, identity: Libp2pIdentity, settings: TransportSettings, *, protocol: bytes
) -> Connection:
    """Dial a libp2p peer; as `connect` otherwise. The peer id is checked where the address names one."""
    connection = await connect(to.address, identity, to.peer_id, settings, alpn=ALPN)
    return Libp2pConnection(connection, identity.peer_id, protocol)
