"""What every byte channel promises, whatever carries it; then what TCP and TLS alone have."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import CloseCode, CloseOrigin, ConnectError, Refusal, TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_connectors.transport.principal import Principal
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.listener import serve_tcp
from tests.support.connectors.channels import TCP, Certificates, Pair, channel_pair
from tests.support.connectors.quic import LOOPBACK
from tests.support.process.waiting import ended, until

MUCH = bytes(range(256)) * 16_384  # 4 MiB: more than all buffers on the way hold


@pytest.fixture(params=["tcp", "tls", "quic", "memory"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    async with channel_pair(request.param, tmp_path) as channels:
        yield channels


async def read_all(channel: ByteChannel) -> bytes:
    """What comes until the remote's end."""
    parts = []
    while data := await channel.read():
        parts.append(data)
    return b"".join(parts)


async def test_bytes_come_in_order_both_ways(pair: Pair) -> None:
    for sender, other in ((pair.client, pair.server), (pair.server, pair.client)):
        await sender.write(b"first ")
        await sender.write(memoryview(b"second"))
        received = b""
        while len(received) < 12:
            data = await other.read(5)
            assert 1 <= len(data) <= 5
            received += data
        assert received == b"first second"
        assert sender.statistics().sent_bytes >= 12 and other.statistics().received_bytes >= 12


async def test_one_direction_ends_and_the_other_goes_on(pair: Pair) -> None:
    await pair.client.write(b"all that I have")
    pair.client.finish()
    assert await read_all(pair.server) == b"all that I have"
    assert pair.client.close_reason is None and pair.server.close_reason is None
    with pytest.raises(TransportError):
        await pair.client.write(b"and this")
    answering = asyncio.create_task(pair.server.write(MUCH))
    received = bytearray()
    while len(received) < len(MUCH):
        received += await pair.client.read()
    await answering
    assert received == MUCH
    pair.server.finish()
    assert await pair.client.read() == b""
    for channel in (pair.client, pair.server):
        assert (await channel.wait_closed()).code == CloseCode.NORMAL


@pytest.mark.parametrize("upwards", [True, False])
async def test_a_writer_waits_for_a_reader_that_takes_nothing(pair: Pair, upwards: bool) -> None:
    writer, reader = (pair.client, pair.server) if upwards else (pair.server, pair.client)
    writing = asyncio.create_task(writer.write(MUCH))
    await asyncio.sleep(0.2)
    assert not writing.done()
    assert writer.statistics().unsent_bytes <= 1.5 * 1024**2
    assert reader.statistics().unread_bytes <= 512 * 1024
    received = bytearray()
    while len(received) < len(MUCH):
        received += await reader.read()
    await writing
    assert received == MUCH


async def test_an_abort_ends_both_sides_and_whoever_waits(pair: Pair) -> None:
    reading = asyncio.create_task(pair.client.read())
    writing = asyncio.create_task(pair.client.write(MUCH))
    elsewhere = asyncio.create_task(pair.server.write(MUCH))
    await asyncio.sleep(0.05)
    pair.client.abort("enough")
    for task in (writing, elsewhere):
        with pytest.raises(TransportError):
            await task
    with contextlib.suppress(TransportError):
        await reading
    with pytest.raises(TransportError):
        await read_all(pair.server)
    with pytest.raises(TransportError):
        await pair.client.write(b"more")
    reason = pair.client.close_reason
    assert reason is not None and reason.origin == CloseOrigin.LOCAL
    assert (await pair.server.wait_closed()).code != CloseCode.NORMAL


async def test_a_remote_that_vanishes_is_noticed(pair: Pair) -> None:
    await pair.client.write(b"?")
    assert await pair.server.read() == b"?"
    pair.vanish()
    with pytest.raises(TransportError):
        await pair.client.read()
    assert (await pair.client.wait_closed()).origin == CloseOrigin.LOST
    with pytest.raises(TransportError):
        await pair.server.read()


async def test_a_close_delivers_what_was_written(pair: Pair) -> None:
    await pair.client.write(b"the last words")
    closing = asyncio.create_task(pair.client.close())
    assert await read_all(pair.server) == b"the last words"
    await pair.server.close()
    await closing
    assert pair.client.close_reason is not None and pair.server.close_reason is not None
    await pair.client.close()


async def test_a_reader_that_is_cancelled_loses_nothing(pair: Pair) -> None:
    reading = asyncio.create_task(pair.server.read())
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await pair.client.write(b"kept")
    assert await pair.server.read() == b"kept"


# TCP and TLS.


async def echo(channel: ByteChannel) -> None:
    while data := await channel.read():
        await channel.write(data)


async def test_who_is_behind_a_channel(tmp_path: Path) -> None:
    async with channel_pair("tcp", tmp_path) as plain:
        assert plain.server.principal.name == "address:127.0.0.1"
    async with channel_pair("tls", tmp_path) as proven:
        assert proven.server.principal.name.startswith("tls:")
        assert proven.client.principal.name.startswith("tls:")
        assert proven.client.principal.name != proven.server.principal.name
    async with channel_pair("quic", tmp_path) as stream:
        assert len(stream.server.principal.key) == 32


async def test_a_client_may_show_no_key_where_none_is_required(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    nobody = certificates.client.model_copy(update={"certificate": None, "private_key": None})
    names: list[str] = []

    def note(principal: Principal) -> Refusal | None:
        names.append(principal.name)
        return None

    async with serve_tcp(LOOPBACK, echo, TCP, tls=certificates.server, authorise=note) as listener:
        channel = await connect_tcp(listener.address, TCP, nobody)
        await channel.write(b"hello")
        assert await channel.read() == b"hello"
        await channel.close()
    assert names == ["address:127.0.0.1"]
    strict = certificates.server.model_copy(update={"require_client_certificate": True})
    async with serve_tcp(LOOPBACK, echo, TCP, tls=strict) as listener:
        with pytest.raises(TransportError):
            channel = await connect_tcp(listener.address, TCP, nobody)
            await channel.read()
        await until(lambda: listener.refusals["handshake"] == 1)


@pytest.mark.parametrize("wrong", ["ca", "server_name"])
async def test_a_server_that_is_not_believed_is_not_spoken_to(tmp_path: Path, wrong: str) -> None:
    certificates = Certificates(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    settings = certificates.client.model_copy(
        update={"ca": Certificates(other).ca} if wrong == "ca" else {"server_name": "elsewhere.example"}
    )
    async with serve_tcp(LOOPBACK, echo, TCP, tls=certificates.server) as listener:
        with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await connect_tcp(listener.address, TCP, settings)


async def test_a_key_that_is_not_allowed_is_refused_and_one_that_was_is_ended(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    refused = False

    def judge(principal: Principal) -> Refusal | None:
        return Refusal("not allowed") if refused else None

    async with serve_tcp(LOOPBACK, echo, TCP, tls=certificates.server, authorise=judge) as listener:
        channel = await connect_tcp(listener.address, TCP, certificates.client)
        await channel.write(b"hello")
        assert await channel.read() == b"hello"
        refused = True
        assert listener.judge_again() == 1
        with pytest.raises(TransportError):
            await channel.read()
        with pytest.raises(TransportError):
            again = await connect_tcp(listener.address, TCP, certificates.client)
            await again.read()
        await until(lambda: listener.refusals["identity"] == 1)


async def test_channels_are_limited_by_address_and_in_all() -> None:
    for limit in ("max_connections", "max_connections_per_address"):
        settings = TCP.model_copy(update={limit: 2, "idle_timeout_s": 30})
        async with serve_tcp(LOOPBACK, echo, settings) as listener:
            connected = [await connect_tcp(listener.address, settings) for _ in range(2)]
            for channel in connected:
                await channel.write(b"1")
                assert await channel.read() == b"1"
            with pytest.raises(TransportError):
                one_more = await connect_tcp(listener.address, settings)
                await one_more.read()
            assert listener.refusals == {"connections": 1}
            await connected[0].close()
            await until(lambda: len(listener.channels) == 1)
            again = await connect_tcp(listener.address, settings)
            await again.write(b"2")
            assert await again.read() == b"2"
            for channel in (connected[1], again):
                await channel.close()


async def test_a_handshake_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    settings = TCP.model_copy(update={"handshake_timeout_s": 0.2})
    async with serve_tcp(LOOPBACK, echo, settings, tls=Certificates(tmp_path).server) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        with pytest.raises(ConnectionResetError):
            await ended(reader.read())
        writer.close()
        assert listener.refusals["handshake"] == 1
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            await ended(reader.read())
        writer.close()
        await until(lambda: listener.refusals["handshake"] == 2)


async def test_an_end_of_tcp_without_an_end_of_tls_is_no_orderly_end(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    async def read(channel: ByteChannel) -> None:
        try:
            await read_all(channel)
        except TransportError as error:
            outcome.set_result(error)
        else:
            outcome.set_result(None)

    async with serve_tcp(LOOPBACK, read, TCP, tls=certificates.server) as listener:
        context = ssl.create_default_context(cafile=certificates.ca)
        with socket.create_connection(listener.address) as plain:
            plain.setblocking(False)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = context.wrap_bio(incoming, outgoing, server_hostname="edge.example")
            loop = asyncio.get_running_loop()
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await loop.sock_sendall(plain, outgoing.read())
                    incoming.write(await loop.sock_recv(plain, 65_536))
            session.write(b"cut of")
            await loop.sock_sendall(plain, outgoing.read())
            plain.shutdown(socket.SHUT_WR)
            assert "without an end of TLS" in str(await ended(outcome))


async def test_a_remote_that_never_reads_is_ended() -> None:
    failure: asyncio.Future[TransportError] = asyncio.get_running_loop().create_future()

    async def talk(channel: ByteChannel) -> None:
        try:
            while True:
                await channel.write(MUCH)
        except TransportError as error:
            failure.set_result(error)

    async with serve_tcp(LOOPBACK, talk, TCP) as listener:
        with socket.create_connection(listener.address):
            assert "nothing moved for too long" in str(await ended(failure))


async def test_where_nothing_listens_that_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(LOOPBACK)
        with pytest.raises(ConnectError, match="nothing listens"):
            await connect_tcp(taken.getsockname(), TCP, None)
    assert TlsFiles().server_name is None
