"""Opens the channel of a session with a replica: outgoing connections, and both directions over QUIC.

Over QUIC the channel is one bidirectional stream, opened by the side that accepted the connection. Its first
bytes show the other side that it was accepted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from culm_connectors.chotki.settings import ALPN
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.interface import ByteChannel, Connection
from culm_connectors.transport.quic import connect
from culm_connectors.transport.stream_channel import StreamChannel
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import DEFAULT_TCP, TcpSettings
from culm_connectors.url import parse_url


@asynccontextmanager
async def dialled(
    url: str,
    identity: Identity,
    tls: TlsFiles,
    transport: TransportSettings,
    tcp: TcpSettings = DEFAULT_TCP,
) -> AsyncIterator[ByteChannel]:
    """Open a channel to the replica at a `tcp://`, `tls://` or `quic://` address. It ends with the context.

    `identity` is presented over QUIC, the certificate of `tls` over TLS. Raises `TransportError`.
    """
    at = parse_url(url)
    if at.scheme == "quic":
        connection = await connect(at.address, identity, None, transport, alpn=ALPN)
        try:
            stream = await connection.accept_stream()
            assert stream.send is not None, "the other side opens a bidirectional stream"
            yield StreamChannel(connection, stream.send, stream)
        finally:
            await connection.close()
        return
    channel = await connect_tcp(at.address, tcp, tls if at.scheme == "tls" else None)
    try:
        yield channel
    finally:
        channel.abort("the session is over")


async def stream_for(connection: Connection) -> ByteChannel:
    """Open the channel for a replica that has connected over QUIC. The caller has to write on it at once."""
    stream = await connection.open_stream(bidirectional=True)
    assert stream.receive is not None, "a bidirectional stream"
    return StreamChannel(connection, stream, stream.receive)
