"""A replica of the models with real connections in both directions. It forwards like a hub."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_models.chotki import events
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import MODE_MAX
from culm_models.chotki.replica import Output, Replica

_READ_BYTES = 64 * 1024
_TICK_S = 0.05


class ReplicaPeer:
    """One replica; `replica` is the model behind it. For one event loop.

    `listeners` receive every event with the name of its session.
    """

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.listeners: list[Callable[[str, events.SessionEvent], None]] = []
        self._channels: dict[str, ByteChannel] = {}
        self._outgoing: dict[str, asyncio.Queue[bytes | None]] = {}
        self._sessions = 0

    async def run_session(self, channel: ByteChannel, *, mode: int = MODE_MAX) -> None:
        """Run one session on a channel until it ends. It may be the handler of a door."""
        self._sessions += 1
        name = f"session {self._sessions}"
        self._channels[name] = channel
        self._outgoing[name] = asyncio.Queue()
        self._take(self.replica.open_session(name, _now_ms(), mode=mode))
        tasks = {asyncio.create_task(work(name, channel)) for work in (self._read, self._write, self._tick)}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not self.replica.sessions[name].is_over:
                self._take(self.replica.lose_session(name, _now_ms()))
            del self._channels[name], self._outgoing[name], self.replica.sessions[name]
            channel.abort()

    def commit(self, letter: str, ref: Id, body: bytes) -> Id:
        """Make a change of this replica (C, O, E or Y) and send it to the sessions. Returns its id."""
        done = self.replica.commit(letter, ref, body, _now_ms())
        self._take(done.output)
        return done.id

    async def _read(self, name: str, channel: ByteChannel) -> None:
        with contextlib.suppress(TransportError):
            while data := await channel.read(_READ_BYTES):
                self._take(self.replica.receive(name, data, _now_ms()))

    async def _write(self, name: str, channel: ByteChannel) -> None:
        queue = self._outgoing[name]
        with contextlib.suppress(TransportError):
            while (data := await queue.get()) is not None:
                await channel.write(data)
            await channel.close()

    async def _tick(self, name: str, _: ByteChannel) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._take(self.replica.tick(_now_ms()))

    def _take(self, output: Output) -> None:
        for name, records in output.sends.items():
            if (queue := self._outgoing.get(name)) is not None:
                queue.put_nowait(b"".join(records))
        for name, event in output.events:
            for listener in self.listeners:
                listener(name, event)
        for name in output.closed:
            if (queue := self._outgoing.get(name)) is not None:
                queue.put_nowait(None)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
