"""Measures the throughput of a bare stream on this machine, the upper bound for every protocol on top."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass

from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.identity import Identity
from culm_connectors.transport.interface import Connection
from culm_connectors.transport.quic.dial import connect
from culm_connectors.transport.quic.listener import serve
from culm_connectors.transport.settings import TransportSettings

_ALPN = "culm/probe/1"
_BATCH_BYTES = 64 * 1_024


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One measurement: `total_bytes` through one stream, both ends in this process."""

    total_bytes: int
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        """The rate, from the first byte written to the last byte read."""
        return self.total_bytes / self.seconds


async def measure_stream(
    total_bytes: int, settings: TransportSettings | None = None, *, write_bytes: int = _BATCH_BYTES
) -> ProbeResult:
    """Send `total_bytes` over loopback in writes of `write_bytes` and read them all."""
    settings = settings or TransportSettings(datagram_bytes="auto")
    finished: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def take_all(connection: Connection) -> None:
        greeting = await connection.open_stream()
        await greeting.write(b"\x00")
        stream = await connection.accept_stream()
        taken = 0
        while data := await stream.read(256 * 1_024):
            taken += len(data)
        finished.set_result(taken)
        await connection.wait_closed()

    server, client = (Identity.from_private_key(os.urandom(32)) for _ in range(2))
    async with serve(("127.0.0.1", 0), server, settings, take_all, alpn=_ALPN) as listener:
        connection = await connect(listener.address, client, server.peer_id, settings, alpn=_ALPN)
        stream = await connection.open_stream()
        payload = os.urandom(write_bytes)
        started = time.perf_counter()
        left = total_bytes
        while left > 0:
            await stream.write(payload[:left])
            left -= write_bytes
        stream.finish()
        taken = await finished
        seconds = time.perf_counter() - started
        await connection.close()
    if taken != total_bytes:
        raise TransportError(f"{taken} of {total_bytes} bytes arrived")
    return ProbeResult(total_bytes, seconds)
