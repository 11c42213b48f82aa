"""Places for work that is done at once, shared so that few clients never hold all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from culm_connectors.dag.http.problems import TooManyRequests


@dataclass(slots=True)
class _Line:
    """The requests of one client: `used` have a place, the others wait for one."""

    used: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class Places:
    """So many at once of one client, and in all; further ones wait, each client in a line of its own.

    Beyond its first place a client gets another one only while it has fewer than are free: of N clients that
    take all they can get, each has one part in N + 1, and as much stays free for others.
    """

    def __init__(self, of_client: int, in_all: int, waiting_of_client: int) -> None:
        self._of_client = of_client
        self._free = in_all
        self._waiting_of_client = waiting_of_client
        self._lines: dict[str, _Line] = {}

    async def enter(self, client: str) -> Callable[[], None]:
        """Wait for a place; returns the function that leaves it, to be called once or more.

        Raises `TooManyRequests` if the client's line is full.
        """
        line = self._lines.setdefault(client, _Line())
        if line.waiting or not self._may_enter(line):
            await self._wait(client, line)
        else:
            self._take(line)
        held = [line]

        def leave() -> None:
            if held:
                held.clear()
                self._leave(client, line)

        return leave

    @asynccontextmanager
    async def take(self, client: str) -> AsyncIterator[None]:
        """A place, while the context lasts. Raises `TooManyRequests` if the client's line is full."""
        leave = await self.enter(client)
        try:
            yield
        finally:
            leave()

    def _may_enter(self, line: _Line) -> bool:
        if not line.used:
            return self._free > 0
        return line.used < min(self._of_client, self._free)

    def _take(self, line: _Line) -> None:
        line.used += 1
        self._free -= 1

    async def _wait(self, client: str, line: _Line) -> None:
        if len(line.waiting) >= self._waiting_of_client:
            self._forget_idle(client, line)
            raise TooManyRequests("more requests at once than may wait of this client")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                if place in line.waiting:
                    line.waiting.remove(place)
                self._forget_idle(client, line)
            else:
                self._leave(client, line)
            raise

    def _leave(self, client: str, line: _Line) -> None:
        line.used -= 1
        self._free += 1
        self._forget_idle(client, line)
        while (name := self._next_client()) is not None:
            # Clients take turns.
            next_line = self._lines[name] = self._lines.pop(name)
            place = next_line.waiting.popleft()
            if not place.cancelled():
                self._take(next_line)
                place.set_result(None)

    def _next_client(self) -> str | None:
        """The client with the fewest places among those for which one is free."""
        waiting = (name for name, line in self._lines.items() if line.waiting and self._may_enter(line))
        return min(waiting, key=lambda name: self._lines[name].used, default=None)

    def _forget_idle(self, client: str, line: _Line) -> None:
        if not line.used and not line.waiting:
            self._lines.pop(client, None)
