"""Two libp2p ends over loopback QUIC, and one end that plays by its own rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from culm_connectors.transport import (
    CloseCode,
    CloseReason,
    ConnectError,
    Connection,
    ConnectionClosedError,
    Identity,
    SendStream,
    StreamStoppedError,
)
from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.certificate import Libp2pIdentity
from culm_connectors.transport.libp2p.connection import ALPN, IDENTIFY, PING, dial_libp2p, serve_libp2p
from culm_connectors.transport.libp2p.host_key import HostKey
from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_connectors.transport.libp2p.multistream import HEADER, encode_line
from culm_connectors.transport.quic import Listener, connect
from tests.support.connectors.quic import LOOPBACK, quick_settings
from tests.support.process.waiting import until, while_working

PROTOCOL = b"/a/protocol/1.0.0"
SERVER, CLIENT = (Libp2pIdentity.from_private_key(bytes([number]) * 32) for number in (1, 2))
SETTINGS = quick_settings()
Handler = Callable[[Connection], Awaitable[None]]


async def shout(connection: Connection) -> None:
    """Says hello, then repeats what comes in upper case."""
    out = await connection.open_stream()
    await out.write(b"hello")
    stream = await connection.accept_stream()
    while data := await stream.read():
        await out.write(data.upper())
    out.finish()


async def stay(connection: Connection) -> None:
    """Opens its stream and listens to nothing."""
    await connection.open_stream()
    await connection.wait_closed()


async def dial(to: Multiaddr) -> Connection:
    return await dial_libp2p(to, CLIENT, SETTINGS, protocol=PROTOCOL)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Listener]:
    async with (
        while_working(),
        serve_libp2p(LOOPBACK, SERVER, SETTINGS, handler, protocol=PROTOCOL) as listener,
    ):
        yield listener


@asynccontextmanager
async def stranger(handler: Handler) -> AsyncIterator[Connection]:
    """A connection of a client that negotiates by hand."""
    async with serving(handler) as listener:
        connection = await connect(listener.address, CLIENT, None, SETTINGS, alpn=ALPN)
        yield connection
        await connection.close()


async def read_all(stream: SendStream, size: int) -> bytes:
    assert stream.receive is not None
    data = b""
    while len(data) < size and (more := await stream.receive.read()):
        data += more
    return data


async def test_bytes_flow_on_one_stream_a_side() -> None:
    async with serving(shout) as listener:
        connection = await dial_libp2p(
            Multiaddr(listener.address, SERVER.peer_id), CLIENT, SETTINGS, protocol=PROTOCOL
        )
        assert (connection.peer_id, connection.dialled) == (SERVER.peer_id, True)
        out = await connection.open_stream()
        assert out.written == 0
        await out.write(b"abc")
        await out.wait_acknowledged(3)
        assert out.written == out.acknowledged == 3
        stream = await connection.accept_stream()
        assert await stream.read() == b"hello"
        assert await stream.read() == b"ABC"
        out.finish()
        assert await stream.read() == b""
        await connection.close()


async def test_more_than_a_window_flows() -> None:
    data = bytes(range(97, 123)) * 100_000
    async with serving(shout) as listener:
        connection = await dial(Multiaddr(listener.address))
        out = await connection.open_stream()

        async def write() -> None:
            await out.write(data)
            out.finish()

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            stream = await connection.accept_stream()
            received = b"".join([part async for part in parts_of(stream)])
        assert received == b"hello" + data.upper()
        await connection.close()


async def parts_of(stream: object) -> AsyncIterator[bytes]:
    while data := await stream.read():  # type: ignore[attr-defined]
        yield data


async def test_the_peer_id_of_the_address_is_checked() -> None:
    async with serving(shout) as listener:
        with pytest.raises(ConnectError, match="wrong_peer"):
            await dial_libp2p(
                Multiaddr(listener.address, CLIENT.peer_id), CLIENT, SETTINGS, protocol=PROTOCOL
            )


async def test_a_plain_certificate_is_refused() -> None:
    async with serving(shout) as listener:
        plain = Identity.from_private_key(bytes([2]) * 32)
        with pytest.raises(ConnectError):
            await connect(listener.address, plain, None, SETTINGS, alpn=ALPN)
        await until(lambda: not listener.connections)


async def test_we_are_identified() -> None:
    async with stranger(stay) as connection:
        stream = await connection.open_stream(bidirectional=True)
        await stream.write(encode_line(HEADER) + encode_line(IDENTIFY))
        prefix = encode_line(HEADER) + encode_line(IDENTIFY)
        answer = await read_all(stream, 1 << 20)
        assert answer.startswith(prefix)
        size, start = wire.decode_varint(answer, len(prefix)) or (0, 0)
        fields = list(wire.read_fields(answer[start:]))
        assert len(answer) == start + size
        assert (1, HostKey.ed25519(SERVER.peer_id).encode()) in fields
        assert {value for number, value in fields if number == 3} == {PROTOCOL, IDENTIFY, PING}


async def test_pings_come_back_whole() -> None:
    async with stranger(stay) as connection:
        stream = await connection.open_stream(bidirectional=True)
        agreed = encode_line(HEADER) + encode_line(PING)
        await stream.write(agreed + b"a" * 32 + b"b" * 31)
        assert await read_all(stream, len(agreed) + 32) == agreed + b"a" * 32
        await stream.write(b"b")
        assert await read_all(stream, 32) == b"b" * 32
        stream.finish()
        assert await read_all(stream, 1) == b""


async def test_an_unknown_protocol_is_not_available_and_a_known_one_may_follow() -> None:
    async with stranger(stay) as connection:
        stream = await connection.open_stream(bidirectional=True)
        await stream.write(encode_line(HEADER) + encode_line(b"/ipfs/id/push/1.0.0"))
        refused = encode_line(HEADER) + encode_line(b"na")
        assert await read_all(stream, len(refused)) == refused
        await stream.write(encode_line(PING))
        assert await read_all(stream, len(encode_line(PING))) == encode_line(PING)
        assert connection.close_reason is None


async def test_a_stream_that_breaks_the_negotiation_costs_itself_alone() -> None:
    async with stranger(stay) as connection:
        broken = await connection.open_stream(bidirectional=True)
        await broken.write(b"GET / HTTP/1.1\r\n\r\n")
        one_way = await connection.open_stream()
        await one_way.write(b"x")
        for stream in (broken, one_way):
            with pytest.raises(StreamStoppedError):
                while True:
                    await stream.write(b"more")
                    await stream.wait_acknowledged(stream.written)
                    await asyncio.sleep(0)
        pinging = await connection.open_stream(bidirectional=True)
        await pinging.write(encode_line(HEADER) + encode_line(PING))
        assert await read_all(pinging, 1)


async def test_many_p2panda_streams_that_nobody_takes_end_the_connection() -> None:
    async with stranger(stay) as connection:
        for _ in range(4):
            stream = await connection.open_stream(bidirectional=True)
            await stream.write(encode_line(HEADER) + encode_line(PROTOCOL))
        reason = await connection.wait_closed()
        assert reason.code == CloseCode.TOO_MANY_STREAMS


async def test_a_remote_without_p2panda_is_left() -> None:
    closed: asyncio.Future[CloseReason] = asyncio.get_running_loop().create_future()

    async def ours(connection: Connection) -> None:
        await connection.open_stream()
        closed.set_result(await connection.wait_closed())

    async with stranger(ours) as connection:
        stream = await connection.accept_stream()
        assert stream.send is not None
        await stream.send.write(encode_line(HEADER) + encode_line(b"na"))
        assert (await closed).code == CloseCode.PROTOCOL


async def test_a_stopped_stream_ends_the_connection_for_a_new_start() -> None:
    closed: asyncio.Future[CloseReason] = asyncio.get_running_loop().create_future()

    async def ours(connection: Connection) -> None:
        out = await connection.open_stream()
        with pytest.raises((StreamStoppedError, ConnectionClosedError)):
            while True:
                await out.write(b"x" * 1_000)
                await out.wait_acknowledged(out.written)
                await asyncio.sleep(0)
        closed.set_result(await connection.wait_closed())

    async with stranger(ours) as connection:
        stream = await connection.accept_stream()
        assert stream.send is not None
        await stream.send.write(encode_line(HEADER) + encode_line(PROTOCOL))
        stream.stop(0)
        assert (await closed).code == CloseCode.PROTOCOL


async def test_a_defect_of_ours_costs_its_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stranger(stay) as connection:
        monkeypatch.setattr("culm_connectors.transport.libp2p.connection.encode_identify", lambda *_: 1 // 0)
        stream = await connection.open_stream(bidirectional=True)
        await stream.write(encode_line(HEADER) + encode_line(IDENTIFY))
        assert (await connection.wait_closed()).code == CloseCode.INTERNAL


async def test_waiting_for_a_stream_ends_with_the_connection() -> None:
    async with serving(stay) as listener:
        connection = await dial(Multiaddr(listener.address))
        await connection.accept_stream()
        waiting = asyncio.create_task(connection.accept_stream())
        connection.abort(CloseCode.NORMAL)
        with pytest.raises(ConnectionClosedError):
            await waiting
        with pytest.raises(ConnectionClosedError):
            await connection.accept_stream()
