"""Both channels over one ordered channel of bytes: setup bytes as they are, then bymux (reference 3.10, R60).

One task reads and one writes. Control is read at all times, whatever becomes of data: data that came waits
here, no more than the credit that was given, until somebody asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from culm_connectors.bamboo_p2p.errors import ChannelError
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_models.bamboo_p2p.errors import BambooP2pError
from culm_models.bamboo_p2p.wire.setup import decode_setup
from culm_models.bymux.endpoint import CONTROL, DATA, Endpoint

_READ_BYTES: Final = 65_536
_DATA_READ_MAX: Final = 262_144
"""So much data is handed on at once: a batch that is verified by all cores, and stored in one transaction."""
_WAITING_BYTES: Final = 128 * 1024
"""Above so much that the transport has not taken, nothing more is made for it."""
_MAX_OUT_BYTES: Final = 1024 * 1024
"""Frames that answer frames come whether or not the other end reads; above so much of them it is let go."""
_MAX_CONTROL_BYTES: Final = 1024 * 1024
"""Control has credit without end: above so much of it that nobody has asked for, the channel stays unread."""
_CLOSE_TIMEOUT_S: Final = 5.0


class Multiplexed:
    """`TwoChannels` over one `ByteChannel`; `window` is how many bytes of data may be on their way here."""

    def __init__(self, channel: ByteChannel, *, window: int) -> None:
        self._channel = channel
        self._endpoint = Endpoint(window)
        self._data_read_bytes = min(window // 2, _DATA_READ_MAX)
        self._setup_in: bytearray | None = bytearray()
        self._setup_is_out = False
        self._control: deque[bytes] = deque()
        self._data: deque[bytes] = deque()
        self._given_bytes = 0
        """Data that was handed on and may not be done with yet."""
        self._control_bytes = 0
        self._out = bytearray()
        self._failure: Exception | None = None
        self._is_ended = False
        self._changed = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]

    @property
    def remote(self) -> str:
        """The name of the principal."""
        return self._channel.principal.name

    async def read_control(self) -> bytes:
        """What comes next on the control channel."""
        data = await self._next(self._control)
        self._control_bytes -= len(data)
        if self._control_bytes + len(data) >= _MAX_CONTROL_BYTES > self._control_bytes:
            await self._notify()
        return data

    async def read_data(self) -> bytes:
        """What comes next on the data channel; what was given before is granted again."""
        if self._given_bytes:
            self._endpoint.consumed(DATA, self._given_bytes)
            self._given_bytes = 0
            await self._notify()
        data = await self._next(self._data)
        # What came behind it, too: but for a part of the window, so that more comes while this is taken in.
        if self._data and len(data) < self._data_read_bytes:
            chunks = [data]
            size = len(data)
            while self._data and size < self._data_read_bytes:
                chunks.append(self._data.popleft())
                size += len(chunks[-1])
            data = b"".join(chunks)
        self._given_bytes = len(data)
        return data

    async def write_control(self, data: bytes) -> None:
        """Send on the control channel; what is sent first are the setup bytes."""
        if not self._setup_is_out:
            found = decode_setup(data)
            assert found is not None, "a connection begins with its setup"
            self._setup_is_out = True
            self._out += data[: found[1]]
            data = data[found[1] :]
        self._endpoint.write(CONTROL, data)
        await self._notify()
        await self._until(lambda: len(self._out) < _WAITING_BYTES)

    async def room_for_data(self) -> int:
        """How much there is credit for, and the transport takes, once that is something."""
        await self._until(lambda: self._endpoint.room > 0 and len(self._out) < _WAITING_BYTES)
        return min(self._endpoint.room, _WAITING_BYTES - len(self._out))

    async def write_data(self, data: bytes) -> None:
        """Send on the data channel."""
        self._endpoint.write(DATA, data)
        await self._notify()

    async def close(self, error: BambooP2pError | None) -> None:
        """End the channel; there is no code that the other end could be told."""
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

    # Waiting, and what is waited for.

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

    async def _next(self, queue: deque[bytes]) -> bytes:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(queue) or self._is_ended)
        if queue:
            return queue.popleft()
        if self._failure is not None:
            raise self._failure
        return b""

    async def _ended(self, failure: Exception | None) -> None:
        self._failure = self._failure or failure
        self._is_ended = True
        await self._notify()

    # The one channel.

    async def _read(self) -> None:
        failure: Exception | None = None
        try:
            while failure is None and (data := await self._channel.read(_READ_BYTES)):
                failure = self._take(data)
                await self._notify()
                if failure is None and len(self._out) > _MAX_OUT_BYTES:
                    failure = ChannelError("the other end asks for more frames than it reads")
                # Whoever reads control asks for nothing else meanwhile, so this wait always ends.
                if failure is None:
                    await self._until(lambda: self._control_bytes < _MAX_CONTROL_BYTES)
        except TransportError as error:
            failure = error
        await self._ended(failure)

    def _take(self, data: bytes) -> Exception | None:
        if self._setup_in is not None:
            self._setup_in += data
            found = decode_setup(self._setup_in)
            if found is None:
                return None
            self._control.append(bytes(self._setup_in[: found[1]]))
            self._control_bytes += found[1]
            data = bytes(self._setup_in[found[1] :])
            self._setup_in = None
        for stream, chunk in self._endpoint.receive(data):
            if stream == CONTROL:
                self._control_bytes += len(chunk)
            (self._control if stream == CONTROL else self._data).append(chunk)
        dropped = self._endpoint.dropped
        return ChannelError(f"{dropped.code}: {dropped}") if dropped is not None else None

    async def _write(self) -> None:
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: bool(self._out))
                # What is being written still counts as waiting.
                data = bytes(self._out[:_READ_BYTES])
                await self._channel.write(data)
                del self._out[: len(data)]
                await self._notify()
        except TransportError as error:
            await self._ended(error)
