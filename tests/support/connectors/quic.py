"""Helpers of every test that speaks QUIC: keys, quick settings, and a faulty network without root.

`LossyProxy` is a UDP relay in front of one server. Its faults come from a seeded generator, one a direction,
so the same seed and the same sequence of datagrams suffer the same fate.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, cast

from culm_connectors.transport import (
    Address,
    CloseCode,
    Connection,
    Identity,
    ReceiveStream,
    SendStream,
    TransportSettings,
)
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.quic.configuration import configuration
from culm_connectors.transport.quic.library import CreditedQuicConnection

ALPN = "culm/test/1"
LOOPBACK: Address = ("127.0.0.1", 0)


def identity(number: int) -> Identity:
    """The identity number `number`: always the same key."""
    return Identity.from_private_key(bytes([number]) * 32)


def quick_settings(**overrides: Any) -> TransportSettings:
    """Settings for loopback; tests override what they are about."""
    return TransportSettings.model_validate({"datagram_bytes": "auto", **overrides})


async def greet_and_echo(connection: Connection) -> None:
    """A handler: one byte of greeting, then whatever comes on the first stream goes back."""
    out = await connection.open_stream()
    await out.write(b"!")
    stream = await connection.accept_stream()
    while data := await stream.read():
        await out.write(data)


@dataclass(frozen=True, slots=True)
class Faults:
    """What happens to the datagrams of one direction; probabilities from 0 to 1."""

    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    """One byte is changed."""
    min_delay_s: float = 0.0
    max_delay_s: float = 0.0
    """Each datagram waits a time drawn between the two, so a spread reorders."""
    max_bytes: int | None = None
    """Longer datagrams are lost, as on a path with a smaller MTU that says nothing."""
    partitioned: bool = False
    """Nothing passes."""


NO_FAULTS = Faults()


class LossyProxy:
    """Relays datagrams between many clients and one server, with faults. Made by `lossy_proxy`."""

    def __init__(self, target: Address, to_server: Faults, to_client: Faults, seed: int) -> None:
        self.to_server = to_server
        self.to_client = to_client
        """Both may be replaced at any time."""
        self.counts: Counter[str] = Counter()
        self._target = target
        self._random = {name: random.Random(f"{seed}-{name}") for name in ("to_server", "to_client")}
        self._loop = asyncio.get_running_loop()
        self._front: asyncio.DatagramTransport | None = None
        self._backs: dict[Address, asyncio.Future[asyncio.DatagramTransport]] = {}
        self._retired: list[asyncio.Future[asyncio.DatagramTransport]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._delayed: set[asyncio.TimerHandle] = set()

    @property
    def address(self) -> Address:
        """Where clients dial."""
        assert self._front is not None
        host, port = self._front.get_extra_info("sockname")[:2]
        return host, port

    def partition(self) -> None:
        """Let nothing pass in either direction until `heal`."""
        self.to_server = self.to_client = Faults(partitioned=True)

    def heal(self) -> None:
        """Take all faults away."""
        self.to_server = self.to_client = NO_FAULTS

    def rebind(self) -> None:
        """Give every client another source address from now on, as a restarted NAT does."""
        self._retired.extend(self._backs.values())
        self._backs.clear()

    async def start(self) -> None:
        """Bind the side that clients dial."""
        transport, _ = await self._loop.create_datagram_endpoint(
            lambda: _Side(self._from_client), local_addr=("127.0.0.1", 0)
        )
        self._front = transport

    async def stop(self) -> None:
        """Free every socket; datagrams under way are lost."""
        for handle in self._delayed:
            handle.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for back in (*self._backs.values(), *self._retired):
            if back.done() and not back.cancelled():
                back.result().close()
        if self._front is not None:
            self._front.close()
        await asyncio.sleep(0)

    def _from_client(self, data: bytes, client: Address) -> None:
        self._pass_on("to_server", self.to_server, data, lambda out: self._send_to_server(out, client))

    def _from_server(self, client: Address, data: bytes) -> None:
        front = self._front
        assert front is not None
        self._pass_on("to_client", self.to_client, data, lambda out: front.sendto(out, client))

    def _send_to_server(self, data: bytes, client: Address) -> None:
        back = self._backs.get(client)
        if back is None:
            back = self._backs[client] = self._loop.create_future()
            task = self._loop.create_task(self._open_back(client, back))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        def send(opened: asyncio.Future[asyncio.DatagramTransport]) -> None:
            if not opened.cancelled():
                opened.result().sendto(data)

        back.add_done_callback(send)

    async def _open_back(self, client: Address, back: asyncio.Future[asyncio.DatagramTransport]) -> None:
        transport, _ = await self._loop.create_datagram_endpoint(
            lambda: _Side(lambda data, _: self._from_server(client, data)), remote_addr=self._target
        )
        back.set_result(transport)

    def _pass_on(self, direction: str, faults: Faults, data: bytes, send: Callable[[bytes], object]) -> None:
        chance = self._random[direction]
        if faults.partitioned or chance.random() < faults.loss:
            self.counts[f"{direction}.lost"] += 1
            return
        if faults.max_bytes is not None and len(data) > faults.max_bytes:
            self.counts[f"{direction}.too_large"] += 1
            return
        copies = 1
        if chance.random() < faults.duplicate:
            self.counts[f"{direction}.duplicated"] += 1
            copies = 2
        if chance.random() < faults.corrupt:
            self.counts[f"{direction}.corrupted"] += 1
            position = chance.randrange(len(data))
            data = data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]
        for _ in range(copies):
            self.counts[f"{direction}.passed"] += 1
            delay_s = chance.uniform(faults.min_delay_s, faults.max_delay_s)
            if delay_s:
                self._send_later(delay_s, data, send)
            else:
                send(data)

    def _send_later(self, delay_s: float, data: bytes, send: Callable[[bytes], object]) -> None:
        def fire() -> None:
            self._delayed.discard(handle)
            send(data)

        handle = self._loop.call_later(delay_s, fire)
        self._delayed.add(handle)


class _Side(asyncio.DatagramProtocol):
    def __init__(self, on_datagram: Callable[[bytes, Address], None]) -> None:
        self._on_datagram = on_datagram

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self._on_datagram(data, cast(Address, addr[:2]))


@asynccontextmanager
async def lossy_proxy(
    target: Address,
    *,
    to_server: Faults = NO_FAULTS,
    to_client: Faults = NO_FAULTS,
    seed: int = 0,
) -> AsyncIterator[LossyProxy]:
    """A `LossyProxy` in front of `target` while the context lasts."""
    proxy = LossyProxy(target, to_server, to_client, seed)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


@asynccontextmanager
async def linked(settings: TransportSettings) -> AsyncIterator[tuple[Connection, Connection]]:
    """A client's connection and the server's end of it, both alive until the context ends."""
    accepted: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def handler(connection: Connection) -> None:
        stream = await connection.open_stream()
        await stream.write(b"!")
        accepted.set_result(connection)
        await over.wait()

    async with serve(LOOPBACK, identity(1), settings, handler, alpn=ALPN) as listener:
        client = await connect(listener.address, identity(2), identity(1).peer_id, settings, alpn=ALPN)
        try:
            yield client, await accepted
        finally:
            over.set()
            client.abort(CloseCode.NORMAL)
            await client.close()


async def one_way(client: Connection, server: Connection) -> tuple[SendStream, ReceiveStream]:
    """A stream from the client to the server; its first byte is already taken."""
    out = await client.open_stream()
    await out.write(b"?")
    stream = await server.accept_stream()
    assert await stream.read() == b"?"
    return out, stream


def first_datagram(settings: TransportSettings) -> bytes:
    """What a client that means to leave its handshake unfinished sends."""
    options = configuration(identity(9), settings, alpn=ALPN, is_client=True, remote_host="127.0.0.1")
    options.max_datagram_size = 1_200
    quic = CreditedQuicConnection(settings, configuration=options)
    quic.connect(("127.0.0.1", 1), now=0.0)
    return quic.datagrams_to_send(now=0.0)[0][0]


@contextmanager
def raw_socket(address: Address) -> Iterator[socket.socket]:
    """A UDP socket that sends whatever a test wants to `address`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.connect(address)
        raw.setblocking(False)
        yield raw
