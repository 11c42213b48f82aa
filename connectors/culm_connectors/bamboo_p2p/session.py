"""One connection: the models' state machine, driven over its two channels.

Control is always read and always written. Data is read when what came before is understood and safe on the
disk (so the other end's credit follows that), and made turn by turn when there is room for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.edge.fair_turns import FairWorker
from culm_models.bamboo_p2p.connection import Connection
from culm_models.bamboo_p2p.errors import BambooP2pError, LimitReached

_TICK_S: Final = 1.0
_CONTROL_BYTES_A_STEP: Final = 4_096
CONTROL_IN, CONTROL_OUT, DATA_IN, DATA_OUT = "control <", "control >", "data <", "data >"
Trace = Callable[[str, bytes], None]
"""Is told what passes: one of the four names above, and the bytes."""


def no_trace(name: str, data: bytes) -> None:
    """The trace that nobody reads."""


class BambooSession:
    """Drives `connection` over `channels` until either ends.

    `until_room` is awaited behind all data that was read: only then the other end may send as much again; and
    before the first of it is taken in. `taking` is around all that takes in what came, in the worker.
    """

    def __init__(
        self,
        connection: Connection,
        channels: TwoChannels,
        worker: FairWorker,
        settings: BambooPeerSettings,
        until_room: Callable[[], Awaitable[None]],
        taking: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        trace: Trace = no_trace,
    ) -> None:
        self.connection = connection
        self.error: BaseException | None = None
        """Why it ended, where that was not in good order."""
        self._channels = channels
        self._worker = worker
        self._settings = settings
        self._until_room = until_room
        self._taking = taking
        self._trace = trace
        self._control_due = asyncio.Event()
        self._data_due = asyncio.Event()
        self._understood = asyncio.Event()
        self._stopped = asyncio.Event()
        self.received_bytes = self.sent_bytes = 0
        """Of the data channel."""

    def wake(self, *, control: bool = True, data: bool = True) -> None:
        """The connection may have something to send on these channels."""
        if control:
            self._control_due.set()
        if data:
            self._data_due.set()

    def stop(self) -> None:
        """Have `run` come to its end."""
        self._stopped.set()

    async def run(self) -> None:
        """Until either end closes; `error` says then how."""
        self.wake()
        steps = (self._read_control, self._write_control, self._read_data, self._write_data, self._tick)
        tasks = [asyncio.create_task(step()) for step in steps]
        tasks.append(asyncio.create_task(self._until_stopped()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.error = self.connection.dropped or next(
                (failed for task in done if (failed := task.exception()) is not None), None
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            error = self.error
            with contextlib.suppress(asyncio.CancelledError):
                await self._channels.close(error if isinstance(error, BambooP2pError) else None)

    async def _read_control(self) -> None:
        while data := await self._channels.read_control():
            self._trace(CONTROL_IN, data)
            for at in range(0, len(data), _CONTROL_BYTES_A_STEP):
                piece = data[at : at + _CONTROL_BYTES_A_STEP]
                step = partial(self._take_in, self.connection.receive_control, piece)
                await self._worker.call(step, metered=True)
                self._understood.set()
                if self.connection.dropped is not None:
                    return
            if self.connection.control_waiting > self._settings.control_backlog_bytes:
                raise LimitReached("the other end does not read what is said on the control channel")
            await self._worker.until_allowed()

    async def _write_control(self) -> None:
        while True:
            await self._control_due.wait()
            self._control_due.clear()
            if data := await self._worker.call(self.connection.take_control):
                self._trace(CONTROL_OUT, data)
                await self._channels.write_control(data)

    async def _read_data(self) -> None:
        is_first = True
        while data := await self._channels.read_data():
            self._trace(DATA_IN, data)
            self.received_bytes += len(data)
            if is_first:
                # What connections before it brought may have left no room.
                await self._until_room()
                is_first = False
            is_left = True
            while is_left:
                step = partial(self._take_in, self.connection.receive_data, data)
                await self._worker.call(step, metered=True)
                while self.connection.data_waits and self.connection.dropped is None:
                    self._understood.clear()
                    await self._understood.wait()
                if self.connection.dropped is not None:
                    return
                await self._until_room()
                data, is_left = b"", self.connection.data_is_left
        # The other end may still have something to say on the control channel.
        await asyncio.Event().wait()

    async def _write_data(self) -> None:
        while True:
            await self._data_due.wait()
            self._data_due.clear()
            is_due = True
            while is_due:
                room = await self._channels.room_for_data()
                turns, is_due = await self._worker.call(partial(self._next_turns, room))
                for data in turns:
                    self._trace(DATA_OUT, data)
                    self.sent_bytes += len(data)
                # In one write: over TCP the other end counts frames.
                if turns:
                    await self._channels.write_data(b"".join(turns))

    def _next_turns(self, room: int) -> tuple[list[bytes], bool]:
        """Turns that would go out at once, and whether there may be more: going to the worker costs time."""
        turns: list[bytes] = []
        while room > 0 and (data := self.connection.next_data()):
            turns.append(data)
            room -= len(data)
        return turns, self.connection.data_is_due

    def _take_in(self, receive: Callable[[bytes, int], None], data: bytes) -> None:
        with self._taking():
            receive(data, now_ms())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()

    async def _tick(self) -> None:
        while self.connection.dropped is None:
            await asyncio.sleep(_TICK_S)
            await self._worker.call(lambda: self.connection.tick(now_ms()))


def now_ms() -> int:
    """A clock that only goes forward, in milliseconds."""
    return int(time.monotonic() * 1000)
