"""Remotes that wear an SDS edge out within what the protocol allows: in tests, and in longer runs under load.

Each is a coroutine or a context manager over real connections, so that any address can be attacked: a
driver's over memory, a connector's over Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from culm_connectors.transport import Address
from culm_models.sds.frames.messages import Join, Leave
from tests.support.sds_edge import Remote, remote

_FRAMES_AT_ONCE = 100


async def join_and_leave(
    attacker: Remote, pairs: int, *, channel_id: str = "room", hosted: bool = False, final: bool = False
) -> None:
    """Join a channel and leave it again, `pairs` times, without a wait for any answer.

    Returns when the connection has taken the frames or has ended; a paced edge takes them in its own time.
    """
    pair = (
        Join(channel_id, "spec", "attacker", hosted=hosted),
        Leave(channel_id, final),
    )
    for start in range(0, pairs, _FRAMES_AT_ONCE):
        if attacker.connection.close_reason is not None:
            return
        await attacker.say(*pair * min(_FRAMES_AT_ONCE, pairs - start))


@contextlib.asynccontextmanager
async def deaf_readers(
    address: Address, count: int, *, first: int = 100, channel_id: str = "room", hosted: bool = False
) -> AsyncIterator[list[Remote]]:
    """Members, with keys of their own from number `first` on, that ask for all the past and read nothing."""
    async with contextlib.AsyncExitStack() as stack:
        members = [
            await stack.enter_async_context(remote(address, first + number, listens=False))
            for number in range(count)
        ]
        for number, member in enumerate(members):
            await member.say(Join(channel_id, "spec", f"deaf {number}", hosted=hosted, cursor=b""))
        yield members
