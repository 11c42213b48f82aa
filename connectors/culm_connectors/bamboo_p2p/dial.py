"""Opens and accepts connections over TCP, TLS and QUIC, each with two channels."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.channels.multiplexed import Multiplexed
from culm_connectors.bamboo_p2p.channels.two_streams import TwoStreams, accept_streams, open_streams
from culm_connectors.bamboo_p2p.errors import ChannelError
from culm_connectors.bamboo_p2p.settings import ALPNS, BambooPeerSettings
from culm_connectors.transport import Identity
from culm_connectors.transport.interface import ByteChannel, Connection
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.listener import serve_tcp
from culm_connectors.url import Url
from culm_models.bamboo.hashes import HashFlavour

OnChannels = Callable[[TwoChannels], Awaitable[None]]
"""Serves one accepted connection until it ends."""
_PROTOCOL_CLOSE = 0x01


async def dial(
    url: Url, flavour: HashFlavour, identity: Identity, settings: BambooPeerSettings
) -> TwoChannels:
    """Connect to a peer. `identity` is presented over QUIC. Raises `TransportError`."""
    if url.scheme == "quic":
        opened: list[TwoStreams] = []

        async def open_both(connection: Connection) -> None:
            opened.append(await open_streams(connection))
            # The accepting side writes nothing before both streams are open. It begins with its setup.

        await connect(
            url.address,
            identity,
            None,
            settings.transport,
            alpn=ALPNS[flavour.name],
            speak_first=open_both,
        )
        return opened[0]
    tls = settings.tls if url.scheme == "tls" else None
    channel = await connect_tcp(url.address, settings.tcp, tls)
    return Multiplexed(channel, window=settings.data_window_bytes)


@asynccontextmanager
async def listening(
    url: Url,
    flavour: HashFlavour,
    identity: Identity,
    settings: BambooPeerSettings,
    on_channels: OnChannels,
) -> AsyncIterator[Url]:
    """Accept peers at an address while the context lasts. Yields the address with the bound port.

    Raises `AddressError`, `IdentityError`.
    """
    if url.scheme == "quic":

        async def on_connection(connection: Connection) -> None:
            try:
                channels = await accept_streams(connection)
            except ChannelError as error:
                connection.abort(_PROTOCOL_CLOSE, str(error))
                return
            await on_channels(channels)

        alpn = ALPNS[flavour.name]
        address = url.address
        async with serve(address, identity, settings.transport, on_connection, alpn=alpn) as listener:
            yield Url(url.scheme, url.host, listener.address[1])
        return

    async def on_channel(channel: ByteChannel) -> None:
        await on_channels(Multiplexed(channel, window=settings.data_window_bytes))

    tls = settings.tls if url.scheme == "tls" else None
    async with serve_tcp(url.address, on_channel, settings.tcp, tls=tls) as tcp:
        yield Url(url.scheme, url.host, tcp.address[1])
