"""One connection: the models' state machine, driven over one bidirectional stream.

Bytes are moved by the loop; all that touches the machine and its store runs where `call` runs it. What came
is understood, and committed, before more is read, so a slow disk holds up the other end and fills no memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, Protocol, TypeVar

from culm_connectors.dag.turns import TURN_S, in_turns
from culm_connectors.transport.interface import ReceiveStream, SendStream
from culm_models.dag.errors import DagUnexpected
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import ExchangeEvent

READ_BYTES: Final = 1_048_576
_WRITE_BYTES: Final = 1_048_576
_BACKLOG_BYTES: Final = 4_194_304
_BACKLOG_TIMEOUT_S: Final = 60.0
_T = TypeVar("_T")


class CallInOrder(Protocol):
    """Runs steps one after the other, away from the loop."""

    def __call__(self, step: Callable[[], Any], /) -> Awaitable[Any]:
        """The result of a step."""
        ...


class DagSession:
    """Drives `exchange` until either end closes. `understood` is called behind each piece that was read.

    `take_in` runs the steps that work on what came, and otherwise `call` does.
    """

    def __init__(
        self,
        exchange: Exchange,
        send: SendStream,
        receive: ReceiveStream,
        call: CallInOrder,
        understood: Callable[[DagSession, list[ExchangeEvent]], None],
        take_in: CallInOrder | None = None,
    ) -> None:
        self.exchange = exchange
        self.error: BaseException | None = None
        """Why it ended, where that was not in good order."""
        self._send = send
        self._receive = receive
        self._call = call
        self._take_in = take_in or call
        self._understood = understood
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._written = asyncio.Event()
        self._due.set()

    def wake(self) -> None:
        """There may be something to send. For any thread."""
        self._loop.call_soon_threadsafe(self._due.set)

    async def run(self) -> None:
        """Until either end closes; `error` says then how."""
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.error = self.exchange.dropped or next(
                (failed for task in done if (failed := task.exception()) is not None), None
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        while data := await self._receive.read(READ_BYTES):
            await in_turns(self._turn, lambda _, data=data: self._understand(data))  # type: ignore[misc]
            self._due.set()
            if self.exchange.dropped is not None:
                return
            await self._room_for_answers()

    async def _turn(self, step: Callable[[None], _T]) -> _T:
        result: _T = await self._take_in(lambda: step(None))
        return result

    def _understand(self, data: bytes) -> Generator[None, None, None]:
        for events in self.exchange.receive_steps(data):
            self._understood(self, events)
            yield

    async def _room_for_answers(self) -> None:
        """Whoever does not read answers is asked for no more questions."""
        try:
            async with asyncio.timeout(_BACKLOG_TIMEOUT_S):
                while self.exchange.waiting_bytes > _BACKLOG_BYTES:
                    self._written.clear()
                    await self._written.wait()
        except TimeoutError:
            raise DagUnexpected("the other end does not read what it is told") from None

    async def _write(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            while data := await self._call(self._frames):
                await self._send.write(data)
                self._written.set()

    def _frames(self) -> bytes:
        frames: list[bytes] = []
        size = 0
        until_s = time.monotonic() + TURN_S
        while size < _WRITE_BYTES and time.monotonic() < until_s and (frame := self.exchange.next_frame()):
            frames.append(frame)
            size += len(frame)
        return frames[0] if len(frames) == 1 else b"".join(frames)
