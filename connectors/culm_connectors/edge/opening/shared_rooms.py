"""Rooms that protocols of a connector share: each is open, and runs, for as long as one of them uses it.

A room that fails ends every protocol that uses it. It is closed with the error that ended it when the last of
them has left. The next protocol that requests it opens it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeVar

from prometheus_client.core import Metric


class SharedRoom(Protocol):
    """A service that several protocols of a connector use."""

    async def run(self) -> None:
        """Run until cancelled. An error ends the protocols that use the room."""
        ...

    def metrics(self) -> Iterator[Metric]:
        """Return its metrics, under plain names, at the time of a scrape and in the scrape's thread."""
        ...

    async def finish(self) -> None:
        """Wait until everything that the protocols have left here is kept; they have finished before."""
        ...


Room = TypeVar("Room", bound=SharedRoom)


class UsedRoom:
    """A room that is open, with the task that runs it and the number of its users."""

    def __init__(self, room: SharedRoom, stack: AsyncExitStack) -> None:
        self.room: Any = room
        self.is_closed = asyncio.Event()
        self._stack = stack
        self._users = 0
        self._error: BaseException | None = None
        self._running = asyncio.create_task(room.run(), name=type(room).__name__)

    async def failed(self) -> None:
        """Wait until the room fails, and raise the error that ended it."""
        await asyncio.shield(self._running)

    @property
    def is_ending(self) -> bool:
        """Return whether it takes no new users: it has failed, was left with an error, or is being closed."""
        return self._running.done() or self._error is not None or not self._users

    def entered(self) -> None:
        """Count a further user."""
        self._users += 1

    async def left(self, error: BaseException | None) -> None:
        """Close the room if it has no users any more, with the first error that it was left with."""
        self._users -= 1
        self._error = first = self._error or error
        if self._users:
            return
        try:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            await self._stack.__aexit__(type(first) if first else None, first, None)
        finally:
            self.is_closed.set()


class SharedRooms:
    """The rooms of one connector, by the functions that open them."""

    def __init__(self) -> None:
        self._used: dict[Callable[..., object], UsedRoom] = {}
        self._opening = asyncio.Lock()

    def __iter__(self) -> Iterator[SharedRoom]:
        """Iterate over the open rooms; from any thread."""
        return iter([used.room for used in tuple(self._used.values()) if not used.is_closed.is_set()])

    @asynccontextmanager
    async def use(
        self, key: Callable[..., object], opening: Callable[[], AbstractAsyncContextManager[Room]]
    ) -> AsyncIterator[UsedRoom]:
        """Use the room of this key while the context lasts; `opening` opens it unless it is open already."""
        async with self._opening:
            used = self._used.get(key)
            if used is None or used.is_ending:
                if used is not None:
                    await used.is_closed.wait()
                async with AsyncExitStack() as stack:
                    room = await stack.enter_async_context(opening())
                    used = self._used[key] = UsedRoom(room, stack.pop_all())
            used.entered()
        try:
            yield used
        except BaseException as error:
            await used.left(error)
            raise
        else:
            await used.left(None)
