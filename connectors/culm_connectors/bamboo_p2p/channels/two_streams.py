"""Two bidirectional QUIC streams that the client opens (reference 4, "QUIC").

The client's first byte on each stream names the channel and is not part of it. The transport extends a
stream's window by the bytes that are read, so unread data stops the other end.
"""

from __future__ import annotations

import asyncio
from typing import Final

from culm_connectors.bamboo_p2p.errors import ChannelError
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import Connection, ReceiveStream, SendStream
from culm_models.bamboo_p2p.errors import BambooP2pError
from culm_models.bymux import CONTROL, DATA

_OPENING_TIMEOUT_S: Final = 10.0
_CAPACITY_BYTES: Final = 262_144
_READ_BYTES: Final = (65_536, 262_144)
"""Read sizes of control and of data. Data is verified by all cores and stored in one transaction."""


class TwoStreams:
    """`TwoChannels` over one QUIC connection."""

    def __init__(self, connection: Connection, control: SendStream, data: SendStream) -> None:
        assert control.receive is not None and data.receive is not None, "both are bidirectional"
        self._connection = connection
        self._out = control, data
        self._in: tuple[ReceiveStream, ReceiveStream] = control.receive, data.receive

    @property
    def remote(self) -> str:
        """The other end's proven key, in hex."""
        return self._connection.peer_id.hex()

    async def read(self, lane: int) -> bytes:
        """Return the next bytes of a channel."""
        return await self._in[lane].read(_READ_BYTES[lane])

    async def capacity(self, lane: int) -> int:
        """Return a constant. `write` waits until there is capacity, so after a write there is some."""
        return _CAPACITY_BYTES

    async def write(self, lane: int, data: bytes) -> None:
        """Send on a channel."""
        await self._out[lane].write(data)

    async def close(self, error: BambooP2pError | None) -> None:
        """Close the connection."""
        if error is not None:
            self._connection.abort(error.number, error.code)
        await self._connection.close(CloseCode.NORMAL)


async def open_streams(connection: Connection) -> TwoStreams:
    """Open the two streams of a connection that this side has opened."""
    control = await connection.open_stream(bidirectional=True)
    data = await connection.open_stream(bidirectional=True)
    await control.write(bytes((CONTROL,)))
    await data.write(bytes((DATA,)))
    return TwoStreams(connection, control, data)


async def accept_streams(connection: Connection) -> TwoStreams:
    """Accept the two streams of a connection that the other side has opened. Raises `ChannelError`."""
    streams: dict[int, SendStream] = {}
    try:
        async with asyncio.timeout(_OPENING_TIMEOUT_S):
            while len(streams) < 2:
                stream = await connection.accept_stream()
                kind = await stream.read(1)
                if stream.send is None or kind not in (b"\x00", b"\x01") or kind[0] in streams:
                    raise ChannelError("a stream is neither the control channel nor the data channel")
                streams[kind[0]] = stream.send
    except TimeoutError:
        raise ChannelError(f"two streams were not opened within {_OPENING_TIMEOUT_S:g} s") from None
    except TransportError as error:
        raise ChannelError(f"two streams were not opened: {error}") from error
    return TwoStreams(connection, streams[CONTROL], streams[DATA])
