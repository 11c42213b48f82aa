"""Moves the bytes of one connection: reads, writes and ticks the state machine that handles them.

A connection has *lanes*, numbered streams of bytes that do not wait for each other. Data is processed before
more is read, so a slow machine applies backpressure to the other end instead of filling memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TypeVar

from culm_connectors.edge.fair_turns import in_turns

_TICK_S: Final = 1.0
_T = TypeVar("_T")


class ByteMachine(Protocol):
    """One end of a connection: a state machine, and the lanes that it uses.

    `receive` and `take` run in the pump's calls, the other methods on the event loop.
    """

    lanes: ClassVar[int]
    """Number of lanes."""

    @property
    def dropped(self) -> Exception | None:
        """Return the violation that ended the connection, if any."""
        ...

    async def read(self, lane: int) -> bytes:
        """Return the next bytes; `b""` at the end. Bytes that were returned before have been processed."""
        ...

    def receive(self, lane: int, data: bytes) -> Generator[None, None, None]:
        """Process bytes, in short steps."""
        ...

    async def until_ready(self, lane: int, size: int) -> bool:
        """Wait until more may be processed, after so many bytes; True: some of these are still left."""
        ...

    async def capacity(self, lane: int) -> int:
        """Wait for capacity and return it, in bytes. A control lane never waits."""
        ...

    def take(self, lane: int, capacity: int) -> tuple[bytes, bool]:
        """Return what is to be sent now, about so many bytes at most, and whether there may be more."""
        ...

    async def write(self, lane: int, data: bytes) -> None:
        """Send bytes."""
        ...


class CallInOrder(Protocol):
    """Runs steps one after the other, outside the event loop."""

    def __call__(self, step: Callable[[], Any], /) -> Awaitable[Any]:
        """Return the result of a step."""
        ...


class Pump:
    """Drives a machine until either end closes.

    `take_in` runs the steps that process bytes, `call` all others, including `on_tick` once a second.
    """

    def __init__(
        self,
        machine: ByteMachine,
        call: CallInOrder,
        take_in: CallInOrder,
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self._machine = machine
        self._call = call
        self._take_in = take_in
        self._on_tick = on_tick
        self._due = [asyncio.Event() for _ in range(machine.lanes)]
        self._moved = asyncio.Condition()
        self._stopped = asyncio.Event()

    def wake(self, *lanes: int) -> None:
        """Wake some lanes, or all of them, as there may be something to send."""
        for lane in lanes or range(len(self._due)):
            self._due[lane].set()

    def stop(self) -> None:
        """Make `run` end."""
        self._stopped.set()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is evaluated whenever bytes were processed or sent."""
        async with self._moved:
            await self._moved.wait_for(holds)

    async def run(self) -> BaseException | None:
        """Move bytes until either end closes; returns the error that ended it, or None."""
        self.wake()
        steps: list[Coroutine[Any, Any, Any]] = [self._stopped.wait()]
        for lane in range(len(self._due)):
            steps += [self._read(lane), self._write(lane)]
        if self._on_tick is not None:
            steps.append(self._tick(self._on_tick))
        tasks = [asyncio.create_task(step) for step in steps]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return self._machine.dropped or next(
                (failed for task in done if (failed := task.exception()) is not None), None
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, lane: int) -> None:
        machine = self._machine
        while machine.dropped is None and (data := await machine.read(lane)):
            is_left = True
            while is_left:
                await in_turns(self._turn, lambda _, data=data: machine.receive(lane, data))  # type: ignore[misc]
                await self._notify()
                is_left = machine.dropped is None and await machine.until_ready(lane, len(data))
                data = b""

    async def _turn(self, step: Callable[[None], _T]) -> _T:
        result: _T = await self._take_in(lambda: step(None))
        return result

    async def _write(self, lane: int) -> None:
        machine = self._machine
        while True:
            await self._due[lane].wait()
            self._due[lane].clear()
            is_due = True
            while is_due:
                capacity = await machine.capacity(lane)
                data, is_due = await self._call(partial(machine.take, lane, capacity))
                if data:
                    await machine.write(lane, data)
                    await self._notify()

    async def _tick(self, on_tick: Callable[[], None]) -> None:
        while self._machine.dropped is None:
            await asyncio.sleep(_TICK_S)
            await self._call(on_tick)

    async def _notify(self) -> None:
        async with self._moved:
            self._moved.notify_all()
