"""The recorded replica: at every connection it says again what a Go replica said, byte for byte.

What it hears is merged into the store that it had, by our models as the Go replica would; pings are answered.
Its own diff comes from the recording alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from importlib import resources

from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_infra.demo.chotki.plan import RECORDED_SOURCE
from culm_models.chotki.compat import Compat
from culm_models.chotki.packets.packet import outer_letter
from culm_models.chotki.replica import Output, Replica
from culm_models.chotki.store import MemoryStore

_READ_BYTES = 64 * 1024
_RECORDED_LETTERS = "HDV"
_SESSION = "recorded"


class RecordedReplica:
    """The replica; `replica` is what keeps what it hears. For one event loop."""

    def __init__(self) -> None:
        found = json.loads((resources.files(__package__) / "data" / "go_replica.json").read_text())
        self.stream = bytes.fromhex(found["stream"])
        store = {bytes.fromhex(key): bytes.fromhex(value) for key, value in found["store"].items()}
        self.replica = Replica(RECORDED_SOURCE, MemoryStore(store), compat=Compat.GO)
        self.replayed = 0
        """How often its bytes were said."""

    async def speak(self, channel: ByteChannel) -> None:
        """One session on a channel, until it ends."""
        # What the replica itself would say at first is what the recording says.
        self.replica.open_session(_SESSION, _now_ms())
        try:
            await channel.write(self.stream)
            self.replayed += 1
            while data := await channel.read(_READ_BYTES):
                output = self.replica.receive(_SESSION, data, _now_ms())
                if answer := _answer(output):
                    await channel.write(answer)
                if output.closed:
                    return
        finally:
            if not self.replica.sessions[_SESSION].is_over:
                self.replica.lose_session(_SESSION, _now_ms())
            with contextlib.suppress(TransportError, asyncio.CancelledError):
                channel.abort()


def _answer(output: Output) -> bytes:
    records = output.of(_SESSION)
    return b"".join(one for one in records if outer_letter(one) not in _RECORDED_LETTERS)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
