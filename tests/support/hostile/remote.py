"""A remote that says whatever bytes a test wants it to, over a real connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from culm_connectors.p2panda.settings import ALPN
from culm_connectors.transport import (
    Address,
    CloseReason,
    Connection,
    Identity,
    SendStream,
    TransportError,
    TransportSettings,
)
from culm_connectors.transport.quic import connect
from culm_models.keys import KeyPair
from culm_models.p2panda.wire.codec import MessageStream, encode
from culm_models.p2panda.wire.messages import Message
from tests.support.process.waiting import while_working


@dataclass
class Hostile:
    """The connection, our stream, and what the other side said so far."""

    connection: Connection
    stream: SendStream
    heard: list[Message]

    async def say(self, *messages: Message) -> None:
        """Send well-formed messages."""
        await self.send(b"".join(encode(message) for message in messages))

    async def send(self, data: bytes) -> None:
        """Send any bytes; the connection may be gone already."""
        with contextlib.suppress(TransportError):
            await self.stream.write(data)

    async def closed(self) -> CloseReason:
        """How the other side ended it."""
        async with while_working():
            return await self.connection.wait_closed()


@contextlib.asynccontextmanager
async def hostile(address: Address, key_pair: KeyPair, *, listens: bool = True) -> AsyncIterator[Hostile]:
    """Connect, and listen if asked to."""
    identity = Identity.from_private_key(key_pair.private_key)
    connection = await connect(address, identity, None, TransportSettings(datagram_bytes="auto"), alpn=ALPN)
    heard: list[Message] = []

    async def listen() -> None:
        incoming = await connection.accept_stream()
        stream = MessageStream()
        while data := await incoming.read():
            heard.extend(stream.feed(data))

    listening = asyncio.create_task(listen() if listens else asyncio.sleep(0))
    try:
        yield Hostile(connection, await connection.open_stream(), heard)
    finally:
        listening.cancel()
        with contextlib.suppress(TransportError, asyncio.CancelledError):
            await listening
        await connection.close()
