"""Processes at the other end of a QUIC connection, as light as possible: nothing is encoded or checked.

    python -m bench.wire bring FILE PORT DATAGRAM_BYTES   sends the entries of a file to a connector
    python -m bench.wire send BYTES PORT DATAGRAM_BYTES   writes random bytes to a sink
    python -m bench.wire sink DATAGRAM_BYTES              reads and drops them

They report as lines of JSON, and end when their standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from culm_connectors.p2panda.settings import ALPN
from culm_connectors.transport import Connection, Identity, TransportSettings
from culm_connectors.transport.quic import connect, serve
from culm_infra.demo.p2panda.plan import SCHEMAS
from culm_models.p2panda.operations.identifiers import normalise
from culm_models.p2panda.wire.codec import MessageStream, encode
from culm_models.p2panda.wire.messages import Announce, Have, SyncDone, SyncRequest

PROBE_ALPN = "culm/probe/1"
SESSION_ID = 0
_WRITE_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024


def report(**what: object) -> None:
    """Report to the process that started this one."""
    print(json.dumps(what), flush=True)


async def transfer(file: Path, port: int, settings: TransportSettings) -> None:
    """Act as a peer that holds the entries in `file`, which has encoded messages of session 0."""
    data = await asyncio.to_thread(file.read_bytes)
    identity = Identity.from_private_key(os.urandom(32))
    schemas = normalise(SCHEMAS)
    connection = await connect(("127.0.0.1", port), identity, None, settings, alpn=ALPN)
    try:
        out = await connection.open_stream()
        await out.write(encode(Announce(1, time.time_ns() // 1_000_000, schemas)))
        await out.write(encode(SyncRequest(SESSION_ID, 0, schemas)))
        incoming = await connection.accept_stream()
        stream = MessageStream()
        while not any(isinstance(message, Have) for message in stream.feed(await incoming.read(_READ_BYTES))):
            pass
        await out.write(encode(Have(SESSION_ID, ())))
        report(started_s=time.time())
        view = memoryview(data)
        for start in range(0, len(data), _WRITE_BYTES):
            await out.write(bytes(view[start : start + _WRITE_BYTES]))
        await out.write(encode(SyncDone(SESSION_ID, live_mode=False)))
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await connection.close()


async def send(total_bytes: int, port: int, settings: TransportSettings) -> None:
    """Write bytes as fast as the other end reads them."""
    identity = Identity.from_private_key(os.urandom(32))
    connection = await connect(("127.0.0.1", port), identity, None, settings, alpn=PROBE_ALPN)
    payload = os.urandom(_WRITE_BYTES)
    try:
        out = await connection.open_stream()
        for start in range(0, total_bytes, _WRITE_BYTES):
            await out.write(payload[: total_bytes - start])
        out.finish()
        await out.wait_acknowledged(total_bytes)
    finally:
        await connection.close()


async def sink(settings: TransportSettings) -> None:
    """Accept one stream after another."""

    async def take(connection: Connection) -> None:
        greeting = await connection.open_stream()
        await greeting.write(b"\x00")
        stream = await connection.accept_stream()
        started_s, taken = time.perf_counter(), 0
        while data := await stream.read(_READ_BYTES):
            taken += len(data)
        report(bytes=taken, seconds=time.perf_counter() - started_s)
        await connection.wait_closed()

    identity = Identity.from_private_key(os.urandom(32))
    async with serve(("127.0.0.1", 0), identity, settings, take, alpn=PROBE_ALPN) as listener:
        report(port=listener.address[1])
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Run the process that the arguments name."""
    what, *rest = sys.argv[1:]
    settings = TransportSettings(datagram_bytes=int(rest[-1]))
    if what == "bring":
        asyncio.run(transfer(Path(rest[0]), int(rest[1]), settings))
    elif what == "send":
        asyncio.run(send(int(rest[0]), int(rest[1]), settings))
    else:
        asyncio.run(sink(settings))


if __name__ == "__main__":
    main()
