"""The two channels of one connection, as a session sees them (reference 3.10 and 4)."""

from __future__ import annotations

from typing import Protocol

from culm_models.bamboo_p2p.errors import BambooP2pError


class TwoChannels(Protocol):
    """Control and data. Each direction of each channel is for one task.

    Errors of the methods: `TransportError`, `ChannelError`.
    """

    @property
    def remote(self) -> str:
        """Who is at the other end, as far as that is proven: its key, or its address."""
        ...

    async def read_control(self) -> bytes:
        """What comes next on the control channel; `b""` at the end."""
        ...

    async def read_data(self) -> bytes:
        """What comes next on the data channel; `b""` at the end.

        Asking says that what was given before is done with: only then may the other end send as much again.
        """
        ...

    async def write_control(self, data: bytes) -> None:
        """Send on the control channel."""
        ...

    async def room_for_data(self) -> int:
        """How many bytes of data would go out now, once there are any.

        The other end has granted them, and little waits here.
        """
        ...

    async def write_data(self, data: bytes) -> None:
        """Send on the data channel: some turns."""
        ...

    async def close(self, error: BambooP2pError | None) -> None:
        """End it: in good order, or with the code of an error, where the transport has such codes."""
        ...
