"""The channel of a session with a replica that is called, or that calls over QUIC.

Over QUIC it is one bidirectional stream, and the side that was called opens it: a caller learns by its first
bytes that it was accepted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from culm_connectors.chotki.settings import ALPN
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import Identity, TransportSettings, connect
from culm_connectors.transport.interface import ByteChannel, Connection
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
    """A channel to the replica at an address (`tcp://`, `tls://` or `quic://`), which ends with the context.

    `identity` is shown over QUIC, the certificate of `tls` over TLS. Errors: `TransportError`.
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
    """The channel for a replica that has called over QUIC; something is to be written on it at once."""
    stream = await connection.open_stream(bidirectional=True)
    assert stream.receive is not None, "a bidirectional stream"
    return StreamChannel(connection, stream, stream.receive)
