"""Hand-made ends of Bamboo Point-2-Point over real connections, to whole peers, called or calling.

What is said is what the hand-made ends of the models' tests say, byte by byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.channels.two_streams import accept_streams, open_streams
from culm_connectors.bamboo_p2p.dial import dial, listening
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import ALPNS
from culm_connectors.transport import CloseReason, ConnectError, Connection, Identity
from culm_connectors.transport.quic import connect, serve
from culm_connectors.url import Url
from culm_models.bamboo.hashes import YAMF
from culm_models.bymux import CONTROL, DATA
from tests.models.bamboo_p2p.hand_made import HandMade

SOMEBODY = Identity.from_private_key(b"who breaks the rules of others ".ljust(32))


class WatchedChannels:
    """The channels of the real end; says how much of each has been read and dealt with."""

    def __init__(self, inner: TwoChannels) -> None:
        self._inner = inner
        self.remote = inner.remote
        self._given, self._done = [0, 0], [0, 0]
        self._changed = asyncio.Event()
        self.is_read = asyncio.Event()
        self.capacity, self.write, self.close = inner.capacity, inner.write, inner.close

    async def read(self, lane: int) -> bytes:
        # Who asks for more has dealt with what was given before.
        self.is_read.set()
        self._done[lane] = self._given[lane]
        self._changed.set()
        data = await self._inner.read(lane)
        self._given[lane] += len(data)
        return data

    async def until_read(self, lane: int, size: int) -> None:
        """Wait until so many bytes of a channel are dealt with."""
        while self._done[lane] < size:
            self._changed.clear()
            await self._changed.wait()


async def say(
    channels: TwoChannels, made: HandMade, remote: RemotePeer, real: WatchedChannels | None
) -> None:
    """Say what the hand-made end says, in its order, though two channels have none of their own."""
    sizes = [0, 0]
    for number, (name, data) in enumerate(made.said):
        if made.asked is not None and made.asked[0] == number:
            await remote.propose(made.asked[1])
        if number == 0 and real is None:
            continue  # whoever calls waits for the first byte of who is called: the setup is out already
        lane = CONTROL if name == "control" else DATA
        other = CONTROL + DATA - lane
        if real is not None:
            await real.until_read(other, sizes[other])
        await channels.write(lane, data)
        sizes[lane] += len(data)


async def broken(
    made: HandMade, peer: BambooPeer, channels: TwoChannels, real: WatchedChannels | None
) -> object:
    """Say everything; how the real end saw the connection end."""
    (remote,) = peer.remotes.values()
    saying = asyncio.create_task(say(channels, made, remote, real))
    await remote.ended.wait()
    saying.cancel()
    await asyncio.gather(saying, return_exceptions=True)
    return remote.session.error


class Called:
    """The real end is called: it gives the odd ids."""

    def __init__(self, peer: BambooPeer) -> None:
        self._peer = peer
        self.real: asyncio.Future[WatchedChannels] = asyncio.get_running_loop().create_future()
        self.remote: RemotePeer | None = None

    async def error(self) -> object:
        """How the real end saw the connection end."""
        assert self.remote is not None
        await self.remote.ended.wait()
        return self.remote.session.error

    async def serve(self, channels: TwoChannels) -> None:
        watched = WatchedChannels(channels)
        speaking = asyncio.create_task(self._peer.serve(watched))
        await watched.is_read.wait()
        (self.remote,) = self._peer.remotes.values()
        self.real.set_result(watched)
        await speaking


async def call_and_break(
    made: HandMade, peer: BambooPeer, url: Url, identity: Identity = SOMEBODY
) -> tuple[object, CloseReason | None]:
    """The hand-made end calls. How the real end saw it end, and how the other one did over QUIC."""
    called = Called(peer)
    settings = peer.settings
    async with listening(url, YAMF, peer.identity, settings, called.serve) as bound:
        if url.scheme != "quic":
            channels = await dial(bound, YAMF, identity, settings)
            error = await broken(made, peer, channels, await called.real)
            await channels.close(None)
            return error, None

        async def speak(connection: Connection) -> None:
            channels = await open_streams(connection)
            # The accepting side serves only what is open, and streams open with their first byte.
            await broken(made, peer, channels, await called.real)

        # The end may come before the connection counts as made, or after.
        address, alpn = (bound.host, bound.port), ALPNS["yamf"]
        try:
            connection = await connect(
                address, identity, None, settings.transport, alpn=alpn, speak_first=speak
            )
            reason: CloseReason | None = await connection.wait_closed()
        except ConnectError as refused:
            reason = refused.reason
        return await called.error(), reason


async def be_called_and_break(
    made: HandMade, peer: BambooPeer, url: Url, identity: Identity = SOMEBODY
) -> tuple[object, CloseReason | None]:
    """The real end calls, and proposes what the hand-made one breaks a rule about."""
    settings = peer.settings
    called: asyncio.Future[TwoChannels] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()
    reasons: list[CloseReason] = []

    async def on_connection(connection: Connection) -> None:
        channels = await accept_streams(connection)
        await channels.write(CONTROL, made.said[0][1])
        called.set_result(channels)
        reasons.append(await connection.wait_closed())
        over.set()

    async def on_channels(channels: TwoChannels) -> None:
        await channels.write(CONTROL, made.said[0][1])
        called.set_result(channels)
        await over.wait()
        await channels.close(None)

    @asynccontextmanager
    async def ready() -> AsyncIterator[Url]:
        if url.scheme != "quic":
            async with listening(url, YAMF, identity, settings, on_channels) as bound:
                yield bound
            return
        address = (url.host, url.port)
        async with serve(
            address, identity, settings.transport, on_connection, alpn=ALPNS["yamf"]
        ) as listener:
            yield Url(url.scheme, url.host, listener.address[1])

    async with ready() as bound, peer.connect(bound):
        error = await broken(made, peer, await called, None)
        if url.scheme == "quic":
            await over.wait()
        over.set()
    return error, reasons[0] if reasons else None
