"""The calling side of an edge connection: dial, wait for the greeting, exchange frames, dial again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from culm_connectors.sds.errors import JoinRefusedError, SdsEdgeError
from culm_connectors.sds.settings import ALPN
from culm_connectors.transport import (
    Address,
    CloseCode,
    Connection,
    Identity,
    SendStream,
    TransportError,
    TransportSettings,
)
from culm_connectors.transport.interface import ReceiveStream
from culm_connectors.transport.quic import connect
from culm_connectors.transport.reconnect import keep_trying
from culm_models.sds.errors import FrameError
from culm_models.sds.frames import codec as wire
from culm_models.sds.frames.messages import VERSION, Frame, Hello, Refused

logger = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
_MAX_OUTBOX_BYTES = 16 * 1024 * 1024
_WRITE_BYTES = 64 * 1024
# What the edge, or the job behind it, says of a join.
_JOIN_CODES = ("sds.join.", "sds.participant.", "sds.settings", "sds.bloom.")


class Call:
    """One connection to an edge. `say` never waits; a frame is not sent if the outbox is full."""

    def __init__(self, connection: Connection, stream: SendStream, receive: ReceiveStream) -> None:
        self.connection = connection
        self._stream = stream
        self._receive = receive
        self._reader = wire.FrameReader()
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self.joined = False
        """Whether a join has succeeded: then the next pause between calls is short."""
        self.frames = self._read()
        """Frames from the edge. Raises `TransportError`, `FrameError`."""

    def send(self, frame: Frame) -> bool:
        """Queue a frame for writing; returns False if too much waits already."""
        data = wire.encode(frame)
        if self._outbox and self._outbox_bytes + len(data) > _MAX_OUTBOX_BYTES:
            return False
        self._outbox.append(data)
        self._outbox_bytes += len(data)
        self._wake.set()
        return True

    async def write(self) -> None:
        """Write queued frames until cancelled. Raises `TransportError`."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._outbox:
                parts: list[bytes] = []
                size = 0
                while self._outbox and (not parts or size < _WRITE_BYTES):
                    parts.append(self._outbox.popleft())
                    size += len(parts[-1])
                await self._stream.write(b"".join(parts))
                self._outbox_bytes -= size
            self._written.set()

    async def _read(self) -> AsyncIterator[Frame]:
        while data := await self._receive.read(_READ_BYTES):
            self._reader.feed(data)
            for frame in self._reader.frames():
                yield frame

    async def flush(self) -> None:
        """Wait until the edge's transport has acknowledged all frames. Raises `TransportError`."""
        while self._outbox_bytes:
            self._written.clear()
            await self._written.wait()
        await self._stream.wait_acknowledged(self._stream.written)


@contextlib.asynccontextmanager
async def calling(
    address: Address, identity: Identity, expected_peer_id: bytes | None, settings: TransportSettings
) -> AsyncIterator[Call]:
    """Connect to an edge and wait for its greeting. Raises `ConnectError`, `SdsEdgeError`."""
    connection = await connect(address, identity, expected_peer_id, settings, alpn=ALPN)
    try:
        receive = await connection.accept_stream()
        if receive.send is None:
            raise SdsEdgeError("the edge opened a stream of one direction")
        call = Call(connection, receive.send, receive)
        hello = await anext(call.frames, None)
        if not isinstance(hello, Hello) or hello.version != VERSION:
            raise SdsEdgeError("the edge does not greet as this version does")
        writing = asyncio.create_task(_quietly(call.write()))
        try:
            yield call
        finally:
            writing.cancel()
            await asyncio.wait({writing})
    finally:
        await connection.close(CloseCode.NORMAL)


async def _quietly(work: Awaitable[None]) -> None:
    with contextlib.suppress(TransportError):
        await work


async def keep_calling(
    address: Address,
    identity: Identity,
    expected_peer_id: bytes | None,
    settings: TransportSettings,
    talk: Callable[[Call], Awaitable[None]],
    failed: Callable[[Exception], None],
) -> None:
    """Call, `talk` until the connection ends, and call again after a pause that grows.

    `failed` is given why a call did not come about, or how it ended. Raises `JoinRefusedError`.
    """

    async def attempt() -> bool:
        joined = False
        try:
            async with calling(address, identity, expected_peer_id, settings) as call:
                try:
                    await talk(call)
                finally:
                    joined = call.joined
        except FrameError as error:
            logger.info("%s: %s", name, error)
            failed(error)
        except TransportError as error:
            failed(error)
            if not joined:
                raise
            logger.info("%s: %s", name, error)
        return joined

    name = f"{address[0]} port {address[1]}"
    await keep_trying(attempt, name=name)


def refusal(frame: Refused) -> JoinRefusedError | None:
    """Return the error of a join that the edge will always refuse; None if another attempt may succeed."""
    if frame.token is None and frame.code.startswith(_JOIN_CODES):
        return JoinRefusedError(f"{frame.message} ({frame.code})")
    return None


class Dials:
    """Tasks that keep connections. The error that ends a task goes to the caller that awaits it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("not dialled again: %s", error)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
