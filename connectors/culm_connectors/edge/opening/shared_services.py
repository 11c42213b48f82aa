"""Services that protocols of a connector share: each is open, and runs, for as long as one of them uses it.

A service that fails ends every protocol that uses it. It is closed with the error that ended it when the last
of them has left. The next protocol that requests it opens it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeVar

from prometheus_client.core import Metric


class SharedService(Protocol):
    """A service that several protocols of a connector use."""

    async def run(self) -> None:
        """Run until cancelled. An error ends the protocols that use the service."""
        ...

    def metrics(self) -> Iterator[Metric]:
        """Return its metrics, under plain names, at the time of a scrape and in the scrape's thread."""
        ...

    async def finish(self) -> None:
        """Wait until everything that the protocols have left here is kept; they have finished before."""
        ...


Service = TypeVar("Service", bound=SharedService)


class UsedService:
    """A service that is open, with the task that runs it and the number of its users."""

    def __init__(self, service: SharedService, stack: AsyncExitStack) -> None:
        self.service: Any = service
        self.is_closed = asyncio.Event()
        self._stack = stack
        self._users = 0
        self._error: BaseException | None = None
        self._running = asyncio.create_task(service.run(), name=type(service).__name__)

    async def failed(self) -> None:
        """Wait until the service fails, and raise the error that ended it."""
        await asyncio.shield(self._running)

    @property
    def is_ending(self) -> bool:
        """Return whether it takes no new users: it has failed, was left with an error, or is being closed."""
        return self._running.done() or self._error is not None or not self._users

    def entered(self) -> None:
        """Count a further user."""
        self._users += 1

    async def left(self, error: BaseException | None) -> None:
        """Close the service if it has no users any more, with the first error that it was left with."""
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


class SharedServices:
    """The services of one connector, by the functions that open them."""

    def __init__(self) -> None:
        self._used: dict[Callable[..., object], UsedService] = {}
        self._opening = asyncio.Lock()

    def __iter__(self) -> Iterator[SharedService]:
        """Iterate over the open services; from any thread."""
        return iter([used.service for used in tuple(self._used.values()) if not used.is_closed.is_set()])

    @asynccontextmanager
    async def use(
        self, key: Callable[..., object], opening: Callable[[], AbstractAsyncContextManager[Service]]
    ) -> AsyncIterator[UsedService]:
        """Use the service of this key while the context lasts; `opening` opens it unless it is open."""
        async with self._opening:
            used = self._used.get(key)
            if used is None or used.is_ending:
                if used is not None:
                    await used.is_closed.wait()
                async with AsyncExitStack() as stack:
                    service = await stack.enter_async_context(opening())
                    used = self._used[key] = UsedService(service, stack.pop_all())
            used.entered()
        try:
            yield used
        except BaseException as error:
            await used.left(error)
            raise
        else:
            await used.left(None)
