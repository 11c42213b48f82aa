"""Moves the bytes of one connection: who reads, writes and ticks a machine that is bytes in and bytes out.

A connection has *lanes*, streams of bytes by number, which wait for nothing but themselves. All that touches
the machine runs where `call` runs it, in turns of a bounded time; bytes are moved by the event loop. What was
read is taken in before more is read, so whoever is slow here holds up the other end and fills no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TypeVar

from culm_connectors.edge.fair_turns import in_turns

_TICK_S: Final = 1.0
_T = TypeVar("_T")


class Lanes(Protocol):
    """The lanes of one connection. Each direction of each is for one task."""

    async def read(self, lane: int) -> bytes:
        """Return what comes next; `b""` at the end.

        Asking says that what was returned before is done with: the other end may send as much again.
        """
        ...

    async def capacity(self, lane: int) -> int:
        """Return how many bytes would go out now, once there are any. A control lane never waits."""
        ...

    async def write(self, lane: int, data: bytes) -> None:
        """Send bytes."""
        ...


class ByteMachine(Protocol):
    """One end of a connection. `receive` and `take` are called where `call` runs them."""

    lanes: ClassVar[int]
    """How many lanes it has."""

    @property
    def dropped(self) -> Exception | None:
        """The violation that ended it."""
        ...

    def receive(self, lane: int, data: bytes) -> Generator[None, None, None]:
        """Take in bytes, in short steps."""
        ...

    async def until_ready(self, lane: int, size: int) -> bool:
        """Wait until more may be taken in, behind so many bytes. True: some of those are left to be."""
        ...

    def take(self, lane: int, capacity: int) -> bytes:
        """Return what is to be sent now, about so many bytes at most."""
        ...


class CallInOrder(Protocol):
    """Runs steps one after the other, away from the loop."""

    def __call__(self, step: Callable[[], Any], /) -> Awaitable[Any]:
        """Return the result of a step."""
        ...


class Pump:
    """Drives a machine over its lanes until either end closes.

    `take_in` runs what takes in bytes, by default as `call`, which also runs `on_tick` once a second.
    """

    def __init__(
        self,
        machine: ByteMachine,
        lanes: Lanes,
        call: CallInOrder,
        take_in: CallInOrder | None = None,
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self.error: BaseException | None = None
        """Why it ended, where that was not in good order."""
        self.received_bytes = [0] * machine.lanes
        self.sent_bytes = [0] * machine.lanes
        self._machine = machine
        self._lanes = lanes
        self._call = call
        self._take_in = take_in or call
        self._on_tick = on_tick
        self._due = [asyncio.Event() for _ in range(machine.lanes)]
        self._moved = asyncio.Condition()
        self._stopped = asyncio.Event()
        self.wake()

    def wake(self, *lanes: int) -> None:
        """Say that there may be something to send on some lanes, or on all of them."""
        for lane in lanes or range(len(self._due)):
            self._due[lane].set()

    def stop(self) -> None:
        """Have `run` come to its end."""
        self._stopped.set()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is evaluated whenever bytes were taken in or sent."""
        async with self._moved:
            await self._moved.wait_for(holds)

    async def run(self) -> None:
        """Move bytes until either end closes; `error` says then how."""
        steps: list[Coroutine[Any, Any, Any]] = [self._stopped.wait()]
        for lane in range(len(self._due)):
            steps += [self._read(lane), self._write(lane)]
        if self._on_tick is not None:
            steps.append(self._tick(self._on_tick))
        tasks = [asyncio.create_task(step) for step in steps]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.error = self._machine.dropped or next(
                (failed for task in done if (failed := task.exception()) is not None), None
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, lane: int) -> None:
        machine = self._machine
        while data := await self._lanes.read(lane):
            size, is_left = len(data), True
            self.received_bytes[lane] += size
            while is_left:
                await in_turns(self._turn, lambda _, data=data: machine.receive(lane, data))  # type: ignore[misc]
                self.wake()
                await self._notify()
                if machine.dropped is not None:
                    return
                is_left = await machine.until_ready(lane, size)
                data, size = b"", 0

    async def _turn(self, step: Callable[[None], _T]) -> _T:
        result: _T = await self._take_in(lambda: step(None))
        return result

    async def _write(self, lane: int) -> None:
        due = self._due[lane]
        while True:
            await due.wait()
            due.clear()
            capacity = await self._lanes.capacity(lane)
            while data := await self._call(partial(self._machine.take, lane, capacity)):
                await self._lanes.write(lane, data)
                self.sent_bytes[lane] += len(data)
                await self._notify()
                capacity = await self._lanes.capacity(lane)

    async def _tick(self, on_tick: Callable[[], None]) -> None:
        while self._machine.dropped is None:
            await asyncio.sleep(_TICK_S)
            await self._call(on_tick)

    async def _notify(self) -> None:
        async with self._moved:
            self._moved.notify_all()
