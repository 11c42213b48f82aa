"""The two channels of one connection, as a session sees them (reference 3.10 and 4)."""

from __future__ import annotations

from typing import Protocol

from culm_models.bamboo_p2p.errors import BambooP2pError


class TwoChannels(Protocol):
    """Control and data, by the numbers that bymux has for them. Each direction of each is for one task.

    Errors of the methods: `TransportError`, `ChannelError`.
    """

    @property
    def remote(self) -> str:
        """Who is at the other end, as far as that is proven: its key, or its address."""
        ...

    async def read(self, lane: int) -> bytes:
        """What comes next on a channel; `b""` at the end.

        Asking says that what was given before is done with: the other end may send as much data again.
        """
        ...

    async def capacity(self, lane: int) -> int:
        """How many bytes would go out now, once there are any; control never waits.

        The other end has granted them, and little waits here.
        """
        ...

    async def write(self, lane: int, data: bytes) -> None:
        """Send on a channel; of data, some turns."""
        ...

    async def close(self, error: BambooP2pError | None) -> None:
        """End it: in good order, or with the code of an error, where the transport has such codes."""
        ...
