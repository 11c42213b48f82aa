"""The two channels of one connection, as a session sees them (reference 3.10 and 4)."""

from __future__ import annotations

from typing import Protocol

from culm_models.bamboo_p2p.errors import BambooP2pError


class TwoChannels(Protocol):
    """The control and data channels, as lanes with bymux's numbers. Each direction of a lane is for one task.

    The methods raise `TransportError`, `ChannelError`.
    """

    @property
    def remote(self) -> str:
        """The proven identity of the other end: its key, or its address."""
        ...

    async def read(self, lane: int) -> bytes:
        """Return the next bytes of a channel; `b""` at the end.

        A call means that the bytes returned before are processed: the other end may send as much data again.
        """
        ...

    async def capacity(self, lane: int) -> int:
        """Wait until data can be sent, and return the number of bytes. Control never waits.

        The other end has granted them, and little is waiting to be sent here.
        """
        ...

    async def write(self, lane: int, data: bytes) -> None:
        """Send on a channel. Data is a few chunks."""
        ...

    async def close(self, error: BambooP2pError | None) -> None:
        """Close the connection cleanly, or with the code of an error if the transport has such codes."""
        ...
