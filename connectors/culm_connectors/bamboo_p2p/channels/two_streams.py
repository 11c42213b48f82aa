"""Two bidirectional QUIC streams that the client opens (reference 4, "QUIC").

The client's first byte on each stream says which channel it is; it is not part of the channel. What is read
from a stream is given back to its window by the transport, so data that is left unread stops the other end.
"""

from __future__ import annotations

import asyncio
from typing import Final

from culm_connectors.bamboo_p2p.errors import ChannelError
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import Connection, ReceiveStream, SendStream
from culm_models.bamboo_p2p.errors import BambooP2pError

CONTROL_TYPE: Final = 0x00
DATA_TYPE: Final = 0x01
_OPENING_TIMEOUT_S: Final = 10.0
_READ_BYTES: Final = 65_536
_ROOM_BYTES: Final = 262_144
_DATA_READ_BYTES: Final = 262_144
"""A batch that is verified by all cores, and stored in one transaction."""


class TwoStreams:
    """`TwoChannels` over one QUIC connection."""

    def __init__(self, connection: Connection, control: SendStream, data: SendStream) -> None:
        assert control.receive is not None and data.receive is not None, "both are bidirectional"
        self._connection = connection
        self._control_out, self._data_out = control, data
        self._control_in: ReceiveStream = control.receive
        self._data_in: ReceiveStream = data.receive

    @property
    def remote(self) -> str:
        """The other end's proven key, in hex."""
        return self._connection.peer_id.hex()

    async def read_control(self) -> bytes:
        """What comes next on the control channel."""
        return await self._control_in.read(_READ_BYTES)

    async def read_data(self) -> bytes:
        """What comes next on the data channel."""
        return await self._data_in.read(_DATA_READ_BYTES)

    async def write_control(self, data: bytes) -> None:
        """Send on the control channel."""
        await self._control_out.write(data)

    async def room_for_data(self) -> int:
        """Writing waits where there is no room, so whoever has written has room."""
        return _ROOM_BYTES

    async def write_data(self, data: bytes) -> None:
        """Send on the data channel."""
        await self._data_out.write(data)

    async def close(self, error: BambooP2pError | None) -> None:
        """Close the connection."""
        if error is not None:
            self._connection.abort(error.number, error.code)
        await self._connection.close(CloseCode.NORMAL)


async def open_streams(connection: Connection) -> TwoStreams:
    """The channels of a connection that this side has called."""
    control = await connection.open_stream(bidirectional=True)
    data = await connection.open_stream(bidirectional=True)
    await control.write(bytes((CONTROL_TYPE,)))
    await data.write(bytes((DATA_TYPE,)))
    return TwoStreams(connection, control, data)


async def accept_streams(connection: Connection) -> TwoStreams:
    """The channels of a connection that the other side has called. Error: `ChannelError`."""
    found: dict[int, SendStream] = {}
    try:
        async with asyncio.timeout(_OPENING_TIMEOUT_S):
            while len(found) < 2:
                stream = await connection.accept_stream()
                kind = await stream.read(1)
                if stream.send is None or kind not in (b"\x00", b"\x01") or kind[0] in found:
                    raise ChannelError("a stream is neither the control channel nor the data channel")
                found[kind[0]] = stream.send
    except TimeoutError:
        raise ChannelError(f"two streams were not opened within {_OPENING_TIMEOUT_S:g} s") from None
    except TransportError as error:
        raise ChannelError(f"two streams were not opened: {error}") from error
    return TwoStreams(connection, found[CONTROL_TYPE], found[DATA_TYPE])
