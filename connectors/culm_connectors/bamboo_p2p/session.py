"""One connection: the state machine of the models, driven over its two channels.

Control is read and written at all times. Data is read once the data before it is processed and on disk, so
that the other end's credit follows the disk. Data to send is produced in chunks, when there is capacity.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar, Final

from culm_connectors.bamboo_p2p.channels.interface import TwoChannels
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.edge.fair_turns import FairWorker
from culm_connectors.edge.pump import Pump
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.errors import BambooP2pError, LimitReached
from culm_models.bymux import CONTROL, DATA

_CONTROL_BYTES_A_STEP: Final = 4_096
_RECEIVED: Final = ("control <", "data <")
_SENT: Final = ("control >", "data >")
Trace = Callable[[str, bytes], None]
"""Receives the bytes that are read and written, each with one of these four names."""


def no_trace(name: str, data: bytes) -> None:
    """Discard the trace."""


class BambooSession:
    """Drives `connection` over its lanes, `channels`, until either ends.

    `wait_for_capacity` is awaited before the first data is processed and after all data that was read; only
    then the other end may send more. `taking` is the context in which the worker processes received bytes.
    """

    lanes: ClassVar = 2

    def __init__(
        self,
        connection: BambooConnection,
        channels: TwoChannels,
        worker: FairWorker,
        settings: BambooPeerSettings,
        wait_for_capacity: Callable[[], Awaitable[None]],
        taking: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        trace: Trace = no_trace,
    ) -> None:
        self.connection = connection
        self.error: BaseException | None = None
        """The reason for the end of the connection; None if it ended cleanly."""
        self.received_bytes = self.sent_bytes = 0
        """Bytes of the data channel."""
        self._channels = channels
        self._worker = worker
        self._settings = settings
        self._wait_for_capacity = wait_for_capacity
        self._taking = taking
        self._trace = trace
        self._pump = Pump(
            self, worker.call, partial(worker.call, metered=True), lambda: connection.tick(now_ms())
        )
        self.stop = self._pump.stop

    def wake(self, *, control: bool, data: bool) -> None:
        """Send on these channels if the connection has something to send."""
        for lane, is_due in enumerate((control, data)):
            if is_due:
                self._pump.wake(lane)

    async def run(self) -> None:
        """Run until either end closes. `error` then has the reason."""
        try:
            self.error = await self._pump.run()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await self._channels.close(self.error if isinstance(self.error, BambooP2pError) else None)

    # The machine and its lanes; see `ByteMachine`.

    @property
    def dropped(self) -> BambooP2pError | None:
        """The violation that ended it."""
        return self.connection.dropped

    async def read(self, lane: int) -> bytes:
        """Return the next bytes of a lane."""
        data = await self._channels.read(lane)
        if data:
            self._trace(_RECEIVED[lane], data)
        elif lane == DATA:
            # The other end may still send on the control channel.
            await asyncio.Event().wait()
        if lane == DATA:
            is_first = not self.received_bytes
            self.received_bytes += len(data)
            if is_first:
                # The data of earlier connections may have used up the capacity.
                await self._wait_for_capacity()
        return data

    def receive(self, lane: int, data: bytes) -> Generator[None, None, None]:
        """Process control in small pieces, and data as far as the connection takes it at once."""
        receive, size = self.connection.receive_data, max(1, len(data))
        if lane == CONTROL:
            receive, size = self.connection.receive_control, _CONTROL_BYTES_A_STEP
        for at in range(0, max(1, len(data)), size):
            with self._taking():
                receive(data[at : at + size], now_ms())
            yield
            if self.dropped is not None:
                return

    async def until_ready(self, lane: int, size: int) -> bool:
        """Wait until more may be processed. Returns whether data that was read is still unprocessed."""
        connection = self.connection
        if lane == CONTROL:
            if connection.control_waiting > self._settings.control_backlog_bytes:
                raise LimitReached("the other end does not read the control channel")
            await self._worker.until_allowed()
            return False
        await self._pump.wait_until(lambda: not connection.data_waits or connection.dropped is not None)
        if connection.dropped is None:
            await self._wait_for_capacity()
        return connection.data_is_left

    async def capacity(self, lane: int) -> int:
        """Return the number of bytes that may be sent now."""
        return await self._channels.capacity(lane)

    def take(self, lane: int, capacity: int) -> tuple[bytes, bool]:
        """Return bytes to send and whether there may be more.

        Chunks of data are joined, because the other end counts frames over TCP.
        """
        if lane == CONTROL:
            return self.connection.take_control(), False
        turns: list[bytes] = []
        while capacity > 0 and (data := self.connection.next_data()):
            turns.append(data)
            capacity -= len(data)
        return b"".join(turns), self.connection.data_is_due

    async def write(self, lane: int, data: bytes) -> None:
        """Send bytes."""
        self._trace(_SENT[lane], data)
        self.sent_bytes += len(data) if lane == DATA else 0
        await self._channels.write(lane, data)


def now_ms() -> int:
    """Return the time of the monotonic clock, in milliseconds."""
    return int(time.monotonic() * 1000)
