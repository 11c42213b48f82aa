"""Both channels over one ordered channel of bytes: the setup bytes, then bymux (reference 3.10, R60).

One task reads and one writes. Control is read at all times, independently of data. Received data waits here,
up to the credit that was granted, until the session reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

from culm_connectors.bamboo_p2p.channels.budgets import ChannelBudget
from culm_connectors.bamboo_p2p.errors import ChannelError
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_models.bamboo_p2p.errors import BambooP2pError
from culm_models.bamboo_p2p.wire.control import decode_setup
from culm_models.bymux import CONTROL, DATA, BymuxError, Endpoint, FrameFlood

_READ_BYTES: Final = 65_536
_FRAMES_AT_ONCE: Final = 256
"""Frames that are processed before other tasks of the event loop run: about one millisecond's work."""
_DATA_READ_MAX: Final = 262_144
"""Largest batch of data, in bytes: it is verified by all cores and stored in one transaction."""
_WAITING_BYTES: Final = 128 * 1024
"""Bytes that may wait for the transport; above this nothing more is produced."""
_MAX_OUT_BYTES: Final = 1024 * 1024
"""Answers to frames are produced even if the other end does not read; above this size it is disconnected."""
_MAX_CONTROL_BYTES: Final = 1024 * 1024
"""Control has unlimited credit. Above this size of unread control the channel is not read."""
_CLOSE_TIMEOUT_S: Final = 5.0


class Multiplexed:
    """`TwoChannels` over one `ByteChannel`. `window`: bytes of data that may be in flight to this side.

    `budget` limits what the principal sends over all of its channels; None: unlimited.
    """

    def __init__(self, channel: ByteChannel, *, window: int, budget: ChannelBudget | None = None) -> None:
        self._channel = channel
        self._budget = budget
        self._endpoint = Endpoint(window)
        self._data_read_bytes = max(1, min(window // 2, _DATA_READ_MAX))
        self._setup_in: bytearray | None = bytearray()
        self._setup_is_out = False
        # Joined bytes instead of frames: an object for each of many small frames would take far more memory
        # than its content, and reading would return one frame at a time.
        self._control = bytearray()
        self._data = bytearray()
        self._given_bytes = 0
        """Bytes of data that `read` returned last and that may not be processed yet."""
        self._out = bytearray()
        self._failure: Exception | None = None
        self._is_ended = False
        self._changed = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]

    @property
    def remote(self) -> str:
        """The name of the principal."""
        return self._channel.principal.name

    async def read(self, lane: int) -> bytes:
        """Return the next bytes of a channel. For data, grants the bytes returned before again."""
        if lane == CONTROL:
            data = await self._next(self._control, _READ_BYTES)
            if len(self._control) + len(data) >= _MAX_CONTROL_BYTES > len(self._control):
                await self._notify()
            return data
        if self._given_bytes:
            self._endpoint.consumed(DATA, self._given_bytes)
            self._given_bytes = 0
            await self._notify()
        # Only a part of the window, so that more arrives while this is processed.
        data = await self._next(self._data, self._data_read_bytes)
        self._given_bytes = len(data)
        return data

    async def write(self, lane: int, data: bytes) -> None:
        """Send on a channel. The first bytes, on the control channel, are the setup bytes."""
        if not self._setup_is_out:
            decoded = decode_setup(data)
            assert decoded is not None, "a connection begins with its setup"
            self._setup_is_out = True
            self._out += data[: decoded[1]]
            data = data[decoded[1] :]
        self._endpoint.write(lane, data)
        await self._notify()
        if lane == CONTROL:
            await self._until(lambda: len(self._out) < _WAITING_BYTES)

    async def capacity(self, lane: int) -> int:
        """Wait until there is credit and capacity of the transport. Returns the bytes that may be sent."""
        if lane == CONTROL:
            return _WAITING_BYTES
        await self._until(lambda: self._endpoint.capacity > 0 and len(self._out) < _WAITING_BYTES)
        return min(self._endpoint.capacity, _WAITING_BYTES - len(self._out))

    async def close(self, error: BambooP2pError | None) -> None:
        """Close the channel. No error code is sent, because the channel has none."""
        if error is None and self._failure is None:
            await self._notify()
            with contextlib.suppress(TransportError, TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._until(lambda: not self._out)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if error is None and self._failure is None:
            with contextlib.suppress(TransportError):
                await self._channel.close()
        self._channel.abort("" if error is None else error.code)

    # Waiting and notifying.

    async def _notify(self) -> None:
        if self._setup_is_out:
            self._out += self._endpoint.take()
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: holds() or self._is_ended)
        if self._failure is not None:
            raise self._failure

    async def _next(self, waiting: bytearray, limit: int) -> bytes:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(waiting) or self._is_ended)
        if not waiting and self._failure is not None:
            raise self._failure
        data = bytes(waiting[:limit])
        del waiting[:limit]
        return data

    async def _ended(self, failure: Exception | None) -> None:
        self._failure = self._failure or failure
        self._is_ended = True
        await self._notify()

    # The channel of bytes.

    async def _read(self) -> None:
        failure: Exception | None = None
        try:
            while failure is None and (data := await self._channel.read(_READ_BYTES)):
                failure = await self._take(data)
        except TransportError as error:
            failure = error
        await self._ended(failure)

    async def _take(self, data: bytes) -> Exception | None:
        """Process received bytes, a bounded number of frames at a time. Returns the violation, if any."""
        size, is_left = len(data), True
        if self._setup_in is not None:
            self._setup_in += data
            decoded = decode_setup(self._setup_in)
            if decoded is None:
                return None
            self._control += self._setup_in[: decoded[1]]
            data = bytes(self._setup_in[decoded[1] :])
            self._setup_in = None
        while is_left:
            frames, empty_frames = self._endpoint.frames, self._endpoint.empty_frames
            failure = self._take_frames(data)
            await self._notify()
            if failure is not None:
                return failure
            if len(self._out) > _MAX_OUT_BYTES:
                return ChannelError("the other end asks for more frames than it reads")
            frames = self._endpoint.frames - frames
            empty_frames = self._endpoint.empty_frames - empty_frames
            try:
                await self._until_allowed(size, frames, empty_frames)
            except FrameFlood as error:
                return _broken(error)
            # The reader of control waits for nothing else meanwhile, so this wait always ends.
            await self._until(lambda: len(self._control) < _MAX_CONTROL_BYTES)
            data, size, is_left = b"", 0, self._endpoint.is_left
        return None

    async def _until_allowed(self, size: int, frames: int, empty_frames: int) -> None:
        """Let other tasks run, and pause as the principal's budget requires. Raises `FrameFlood`."""
        wait_s = 0.0
        if self._budget is not None:
            wait_s = self._budget.wait_s(
                time.monotonic(), size=size, frames=frames, empty_frames=empty_frames
            )
        await asyncio.sleep(wait_s)

    def _take_frames(self, data: bytes) -> Exception | None:
        for stream, chunk in self._endpoint.receive(data, _FRAMES_AT_ONCE):
            waiting = self._control if stream == CONTROL else self._data
            waiting += chunk
        return None if self._endpoint.dropped is None else _broken(self._endpoint.dropped)

    async def _write(self) -> None:
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: bool(self._out))
                # Bytes that are being written still count as waiting.
                data = bytes(self._out[:_READ_BYTES])
                await self._channel.write(data)
                del self._out[: len(data)]
                await self._notify()
        except TransportError as error:
            await self._ended(error)


def _broken(error: BymuxError) -> ChannelError:
    return ChannelError(f"{error.code}: {error}")
