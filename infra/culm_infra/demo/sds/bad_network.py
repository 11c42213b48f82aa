"""A bad network between one participant and its edge: messages are lost, duplicated, delayed or cut off.

QUIC loses nothing, so a relay between the two drops, duplicates and delays the frames that carry SDS
messages. All other frames (joins, questions to the store and their answers) pass unchanged; while the link is
cut, nothing passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from culm_connectors.sds.settings import ALPN
from culm_connectors.transport import (
    Address,
    CloseCode,
    Connection,
    Identity,
    ReceiveStream,
    SendStream,
    TransportError,
    TransportSettings,
)
from culm_connectors.transport.quic import connect, serve
from culm_models.sds.errors import FrameError
from culm_models.sds.frames import codec as wire
from culm_models.sds.frames.messages import SdsMessage

_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """Shares (0 to 1) of messages that are lost or duplicated, and the longest delay, in seconds."""

    loss: float = 0.2
    duplication: float = 0.1
    delay_s: float = 0.3


@dataclass(slots=True)
class Mishaps:
    """Faults of a link, counted in both directions."""

    passed: int = 0
    lost: int = 0
    doubled: int = 0
    cuts: int = 0
    broadcast_bytes: int = 0
    """Bytes of the messages that the participant sent, before any fault."""


@dataclass(slots=True)
class BadLink:
    """The relay of one participant, which dials `address` instead of the edge."""

    edge: Address
    faults: NetworkFaults
    chance: random.Random
    address: Address = ("127.0.0.1", 0)
    mishaps: Mishaps = field(default_factory=Mishaps)
    _is_cut: bool = False
    _connections: set[Connection] = field(default_factory=set)

    def cut(self) -> None:
        """End every connection and admit none until `restore`."""
        self._is_cut = True
        self.mishaps.cuts += 1
        for connection in tuple(self._connections):
            connection.abort(CloseCode.INTERNAL, "the link is cut")

    def restore(self) -> None:
        """Admit connections again."""
        self._is_cut = False

    async def relay(self, near: Connection) -> None:
        """Carry one connection's frames to the edge and back until either side ends it."""
        if self._is_cut:
            return
        self._connections.add(near)
        with contextlib.suppress(TransportError, FrameError, _EndedError):
            far = await connect(self.edge, _identity(self.chance), None, _SETTINGS, alpn=ALPN)
            self._connections.add(far)
            try:
                await self._carry(near, far)
            finally:
                self._connections.discard(far)
                far.abort(CloseCode.NORMAL)
        self._connections.discard(near)

    async def _carry(self, near: Connection, far: Connection) -> None:
        """Accept the stream that the edge opens, open one to the participant, and pass frames both ways."""
        from_edge = await far.accept_stream()
        to_peer = await near.open_stream(bidirectional=True)
        assert from_edge.send is not None and to_peer.receive is not None, "frames go both ways"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(from_edge, to_peer, group, outgoing=False))
                group.create_task(self._pass_on(to_peer.receive, from_edge.send, group, outgoing=True))
        except* (TransportError, FrameError, _EndedError) as errors:
            raise _EndedError from errors

    async def _pass_on(
        self, source: ReceiveStream, sink: SendStream, group: asyncio.TaskGroup, *, outgoing: bool
    ) -> None:
        reader = wire.FrameReader()
        while data := await source.read(_READ_BYTES):
            reader.feed(data)
            for frame in reader.frames():
                if isinstance(frame, SdsMessage):
                    if outgoing:
                        self.mishaps.broadcast_bytes += len(frame.wire)
                    self._mishandle(frame, sink, group)
                else:
                    await sink.write(wire.encode(frame))
        raise _EndedError

    def _mishandle(self, frame: SdsMessage, sink: SendStream, group: asyncio.TaskGroup) -> None:
        faults, chance = self.faults, self.chance
        if chance.random() < faults.loss:
            self.mishaps.lost += 1
            return
        copies = 2 if chance.random() < faults.duplication else 1
        self.mishaps.passed += 1
        self.mishaps.doubled += copies - 1
        data = wire.encode(frame)
        for _ in range(copies):
            group.create_task(_write_delayed(sink, data, chance.uniform(0, faults.delay_s)))


@contextlib.asynccontextmanager
async def bad_link(edge: Address, faults: NetworkFaults, seed: int) -> AsyncIterator[BadLink]:
    """Open a link to this edge while the context lasts."""
    link = BadLink(edge, faults, random.Random(seed))
    async with serve(("127.0.0.1", 0), _identity(link.chance), _SETTINGS, link.relay, alpn=ALPN) as listener:
        link.address = listener.address
        yield link


async def _write_delayed(sink: SendStream, data: bytes, delay_s: float) -> None:
    await asyncio.sleep(delay_s)
    await sink.write(data)


def _identity(chance: random.Random) -> Identity:
    return Identity.from_private_key(chance.randbytes(32))


_SETTINGS = TransportSettings(datagram_bytes="auto")


class _EndedError(Exception):
    """One side ended, so the other side is closed."""
