"""What hostile clients of the HTTP door do to it, for ever, from several addresses."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from culm_connectors.dag.http.settings import PART_BYTES
from culm_connectors.transport import Address
from culm_models.dag.blocks.cid import CAR, RAW, Cid, cid_of
from culm_models.dag.car.writer import write_car
from culm_models.dag.replica.codec import encode_append
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.support.hostile.source_address import under_keys

_FILE_LEVELS: Final = 30
_READERS: Final = 16
_WRITERS: Final = 8
_STREAMS: Final = 8
_PAUSE_S: Final = 0.5
_LEAF_BYTES: Final = 262_144
_SLOWLY: Final = 4_096
"""Bytes that are read or written before each pause: just above, or just below, the least rate."""


@asynccontextmanager
async def _connection(address: Address) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    connected = socket.socket()
    connected.setblocking(False)
    # The system takes little in the place of a client that does not read.
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await asyncio.get_running_loop().sock_connect(connected, address)
    reader, writer = await asyncio.open_connection(sock=connected, limit=4_096)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _head(method: str, target: str, *headers: str) -> bytes:
    return "\r\n".join((f"{method} {target} HTTP/1.1", "Host: a", *headers, "", "")).encode()


async def _ask(address: Address, method: str, target: str, body: bytes) -> None:
    """One request, whatever it is answered."""
    async with _connection(address) as (reader, writer):
        writer.write(_head(method, target, f"Content-Length: {len(body)}", "Connection: close") + body)
        await reader.readline()


async def _bring_endless_file(address: Address) -> Cid:
    """Have the door hold a file whose every node has the one below it twice."""
    blocks, space = BlocksInMemory(), os.urandom(32).hex()
    # Large leaves: it costs the door little to read much of it.
    top, size = blocks.raw(os.urandom(_LEAF_BYTES)), _LEAF_BYTES
    for _ in range(_FILE_LEVELS):
        top, size = blocks.file([(top, size), (top, size)]), 2 * size
    shard = write_car([], list(blocks.items()))
    cid = cid_of(CAR, shard)
    await _ask(address, "PUT", f"/shards/{cid}?space={space}", shard)
    append = encode_append([cid])
    await _ask(address, "POST", f"/spaces/{space}/nodes", write_car([], [(append.cid, append.data)]))
    return top


async def slow_readers(address: Address) -> None:
    """As many endless answers as one address may have, of each of which a little is taken at a time."""
    head = _head("GET", f"/ipfs/{await _bring_endless_file(address)}")

    async def read_slowly() -> None:
        async with _connection(address) as (reader, writer):
            writer.write(head)
            while await reader.read(_SLOWLY):  # noqa: ASYNC110 - it is slow on purpose
                await asyncio.sleep(_PAUSE_S)

    await asyncio.gather(*(read_slowly() for _ in range(_READERS)), return_exceptions=True)


async def slow_writers(address: Address) -> None:
    """As many bodies as one address may send at once, of each of which a little is sent at a time."""
    space, cid = os.urandom(32).hex(), cid_of(RAW, os.urandom(8))
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(_connection(address)) for _ in range(_WRITERS)]
        for _, writer in opened:
            writer.write(_head("PUT", f"/shards/{cid}?space={space}", f"Content-Length: {PART_BYTES}"))
        while not any(reader.at_eof() for reader, _ in opened):
            for _, writer in opened:
                writer.write(bytes(_SLOWLY))
                await writer.drain()
            await asyncio.sleep(_PAUSE_S)


async def small_chunks(address: Address) -> None:
    """A body that comes in chunks of one byte, as fast as they are taken."""
    chunks = b"1\r\nx\r\n" * 10_000
    async with _connection(address) as (_, writer):
        writer.write(_head("POST", "/publishes", "Transfer-Encoding: chunked"))
        while True:
            writer.write(chunks)
            await writer.drain()


async def event_streams(address: Address) -> None:
    """As many streams of events as one address may have, of what changes all the time."""
    id = bytes(32).hex()
    async with AsyncExitStack() as stack:
        for _ in range(_STREAMS):
            reader, writer = await stack.enter_async_context(_connection(address))
            writer.write(_head("GET", f"/events?id={id}"))
            await reader.readline()
        while True:
            append = encode_append([cid_of(CAR, os.urandom(32))])
            car = write_car([], [(append.cid, append.data)])
            await _ask(address, "POST", f"/spaces/{id}/nodes", car)
            await asyncio.sleep(_PAUSE_S)


HTTP_ATTACKS: Mapping[str, Callable[[Address], Awaitable[None]]] = {
    "http-slow-readers": under_keys(slow_readers, 5, 5),
    "http-slow-writers": under_keys(slow_writers, 5, 5),
    "http-small-chunks": under_keys(small_chunks, 8, 2),
    "http-event-streams": under_keys(event_streams, 100, 100),
}
