"""The dialling side: `connect_tcp`."""

from __future__ import annotations

import asyncio

from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.errors import AddressError, ConnectError
from culm_connectors.transport.interface import Address, ByteChannel
from culm_connectors.transport.tcp.channel import TcpChannel
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_connectors.transport.tcp.tls import TlsSession, client_context


async def connect_tcp(address: Address, settings: TcpSettings, tls: TlsFiles | None = None) -> ByteChannel:
    """Connect to a server; with `tls`, return once its certificate has been verified.

    In TLS 1.3 a client finishes before the server has checked the client's certificate: a refusal shows at
    the first read. Errors: `AddressError`, `ConnectError`, `IdentityError`.
    """
    host, port = address
    loop = asyncio.get_running_loop()
    known: asyncio.Future[None] = loop.create_future()
    session = None
    if tls is not None:
        session = TlsSession(client_context(tls), server_side=False, server_name=tls.server_name or host)

    def settle(_: TcpChannel) -> None:
        if not known.done():
            known.set_result(None)

    channel = TcpChannel(settings, session, established=settle, ended=settle)
    try:
        async with asyncio.timeout(settings.handshake_timeout_s):
            await loop.create_connection(lambda: channel, host, port)
            await known
    except TimeoutError:
        channel.abort()
        raise ConnectError(f"{host} port {port} did not answer in time") from None
    except OSError as error:
        if isinstance(error, ConnectionRefusedError):
            raise ConnectError(f"nothing listens on {host} port {port} (TCP)") from error
        raise AddressError(f"{host} port {port}: {error}") from error
    except BaseException:
        channel.abort()
        raise
    if channel.close_reason is not None:
        raise ConnectError(f"{host} port {port}: {channel.close_reason}", channel.close_reason)
    return channel
