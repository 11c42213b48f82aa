"""How connections begin to fail and end: orderly, abruptly, silently; and that everybody waiting is told."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from typing import Any

import pytest

from culm_connectors.transport import (
    AddressError,
    CloseCode,
    CloseOrigin,
    ConnectError,
    Connection,
    ConnectionClosedError,
)
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.quic.connection import QuicTransportConnection
from tests.support.connectors.quic import (
    ALPN,
    LOOPBACK,
    greet_and_echo,
    identity,
    linked,
    lossy_proxy,
    one_way,
    quick_settings,
)
from tests.support.process.waiting import ended, while_working

SERVER, CLIENT = identity(1), identity(2)
MIB = 1_024 * 1_024


async def test_an_orderly_close_delivers_what_was_written_before() -> None:
    payload = random.Random(1).randbytes(2 * MIB)
    async with linked(quick_settings()) as (client, server):
        out, stream = await one_way(client, server)

        async def send_and_close() -> None:
            await out.write(payload)
            await client.close(CloseCode.NORMAL, "all said")

        got = bytearray()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send_and_close())
            while data := await stream.read():
                got += data
        assert got == payload
        reason = await server.wait_closed()
        assert (reason.code, reason.text, reason.origin) == (CloseCode.NORMAL, "all said", CloseOrigin.REMOTE)
        assert client.close_reason is not None and client.close_reason.origin == CloseOrigin.LOCAL


async def test_what_was_written_before_the_close_can_still_be_accepted_and_read_after_it() -> None:
    async with linked(quick_settings()) as (client, server):
        out = await client.open_stream()
        await out.write(b"last words")
        await client.close()
        await server.wait_closed()
        stream = await server.accept_stream()
        assert await stream.read() == b"last words"
        assert await stream.read() == b""
        with pytest.raises(ConnectionClosedError):
            await server.accept_stream()


async def test_an_orderly_close_does_not_wait_for_ever_for_a_reader_that_never_reads() -> None:
    async with linked(quick_settings(close_timeout_s=0.1)) as (client, server):
        out, _ = await one_way(client, server)
        await out.write(bytes(MIB // 2))
        async with while_working():
            await client.close()
            assert (await server.wait_closed()).origin == CloseOrigin.REMOTE


async def test_an_abort_is_told_to_everybody_who_waits() -> None:
    async with linked(quick_settings()) as (client, server):
        out, stream = await one_way(client, server)
        waiting = [
            asyncio.create_task(stream.read()),
            asyncio.create_task(server.accept_stream()),
            asyncio.create_task(out.write(bytes(4 * MIB))),
        ]
        taken = await waiting[0]
        assert taken
        reading = asyncio.create_task(_read_to_the_end(stream))
        await asyncio.sleep(0)
        server.abort(CloseCode.PROTOCOL, "no such message")
        for task in (*waiting[1:], reading):
            with pytest.raises(ConnectionClosedError):
                await ended(task)
        reason = await client.wait_closed()
        assert (reason.code, reason.text) == (CloseCode.PROTOCOL, "no such message")
        assert (reason.origin, reason.application) == (CloseOrigin.REMOTE, True)
        assert str(reason) == "remote, protocol (0x110): no such message"


async def _read_to_the_end(stream: Any) -> None:
    while await stream.read():
        pass


async def test_an_ended_connection_takes_nothing_more() -> None:
    async with linked(quick_settings()) as (client, server):
        out, _ = await one_way(client, server)
        client.abort(CloseCode.NORMAL)
        client.abort(CloseCode.INTERNAL, "a second end changes nothing")
        assert client.close_reason is not None and client.close_reason.code == CloseCode.NORMAL
        with pytest.raises(ConnectionClosedError):
            await out.write(b"late")
        with pytest.raises(ConnectionClosedError):
            await client.open_stream()
        out.finish()
        out.reset(1)
        await client.close()


async def test_a_remote_cannot_forge_log_lines_with_its_reason() -> None:
    async with linked(quick_settings()) as (client, server):
        server.abort(CloseCode.NORMAL, "\x1b[31mred\nsecond line é" + "x" * 500)
        reason = await client.wait_closed()
        assert reason.text.isascii() and reason.text.isprintable()
        assert len(reason.text) <= 200


async def test_a_peer_that_vanishes_is_noticed_by_both_sides() -> None:
    settings = quick_settings(idle_timeout_s=0.4, ping_interval_s=0.1)
    accepted: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    async def handler(connection: Connection) -> None:
        await (await connection.open_stream()).write(b"!")
        accepted.set_result(connection)
        await connection.wait_closed()

    async with (
        serve(LOOPBACK, SERVER, settings, handler, alpn=ALPN) as listener,
        lossy_proxy(listener.address) as proxy,
    ):
        client = await connect(proxy.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        server = await accepted
        proxy.partition()
        async with while_working():
            for connection in (client, server):
                reason = await connection.wait_closed()
                assert reason.origin == CloseOrigin.LOST
        await client.close()
    assert listener.connections == []


async def test_a_silent_connection_is_kept_alive() -> None:
    settings = quick_settings(idle_timeout_s=0.5, ping_interval_s=0.1)
    async with linked(settings) as (client, server):
        await asyncio.sleep(3 * settings.idle_timeout_s)
        assert client.close_reason is None
        assert server.close_reason is None


async def test_late_datagrams_do_not_make_a_close_go_out_more_often() -> None:
    async with linked(quick_settings(close_timeout_s=0.1)) as (client, _):
        assert isinstance(client, QuicTransportConnection)
        sent: list[bytes] = []
        client._pump._send_datagram = lambda data, address: sent.append(data)
        client.abort(CloseCode.NORMAL)
        for _ in range(100):
            client.receive(b"a late datagram", client.remote_address)
        assert len(sent) == 1
        await client.close()
        assert len(sent) == 3
        assert len(set(sent)) == 1


async def test_a_close_is_repeated_unasked_for_a_remote_that_waits_in_silence() -> None:
    async with linked(quick_settings(close_timeout_s=0.1)) as (client, _):
        assert isinstance(client, QuicTransportConnection)
        sent: list[bytes] = []
        client._pump._send_datagram = lambda data, address: sent.append(data)
        client.abort(CloseCode.NORMAL)
        assert len(sent) == 1
        await client.close()
        assert len(sent) >= 3
        assert len(set(sent)) == 1


async def test_a_handler_that_returns_closes_its_connection_in_good_order() -> None:
    async def handler(connection: Connection) -> None:
        await (await connection.open_stream()).write(b"hello and goodbye")

    async with serve(LOOPBACK, SERVER, quick_settings(), handler, alpn=ALPN) as listener:
        client = await connect(listener.address, CLIENT, SERVER.peer_id, quick_settings(), alpn=ALPN)
        stream = await client.accept_stream()
        assert await stream.read() == b"hello and goodbye"
        assert await stream.read() == b""
        reason = await client.wait_closed()
        assert (reason.code, reason.origin) == (CloseCode.NORMAL, CloseOrigin.REMOTE)
        await client.close()


async def test_a_handler_that_fails_is_logged_and_closes_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(connection: Connection) -> None:
        await (await connection.open_stream()).write(b"!")
        if connection.peer_id == CLIENT.peer_id:
            raise RuntimeError("a fault of the driver")
        await connection.wait_closed()

    settings = quick_settings()
    async with serve(LOOPBACK, SERVER, settings, handler, alpn=ALPN) as listener:
        bystander = await connect(listener.address, identity(3), SERVER.peer_id, settings, alpn=ALPN)
        with caplog.at_level(logging.ERROR):
            client = await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
            reason = await client.wait_closed()
        assert reason.code == CloseCode.INTERNAL
        assert "driver" not in reason.text
        assert "a fault of the driver" in caplog.text
        assert bystander.close_reason is None
        await client.close()
        await bystander.close()


async def test_leaving_the_listener_cancels_handlers_and_delivers_what_was_written() -> None:
    cancelled = asyncio.Event()

    async def handler(connection: Connection) -> None:
        await (await connection.open_stream()).write(b"!" * 100_000)
        try:
            await connection.wait_closed()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with serve(LOOPBACK, SERVER, quick_settings(), handler, alpn=ALPN) as listener:
        client = await connect(listener.address, CLIENT, SERVER.peer_id, quick_settings(), alpn=ALPN)
        stream = await client.accept_stream()
    assert cancelled.is_set()
    got = b""
    while data := await stream.read():
        got += data
    assert got == b"!" * 100_000
    assert (await client.wait_closed()).code == CloseCode.SHUTTING_DOWN
    await client.close()


async def test_a_server_that_says_nothing_has_not_accepted() -> None:
    async def mute(connection: Connection) -> None:
        await connection.wait_closed()

    settings = quick_settings(handshake_timeout_s=0.5)
    async with serve(LOOPBACK, SERVER, settings, mute, alpn=ALPN) as listener:
        with pytest.raises(ConnectError, match="did not accept") as caught:
            await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        assert caught.value.reason is not None
        assert caught.value.reason.code == CloseCode.HANDSHAKE_TIMEOUT


async def test_a_socket_that_never_answers_is_given_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(LOOPBACK)
        with pytest.raises(ConnectError, match="did not accept"):
            await connect(
                silent.getsockname(), CLIENT, None, quick_settings(handshake_timeout_s=0.3), alpn=ALPN
            )


async def test_an_address_where_nothing_listens_is_told_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(LOOPBACK)
        address = gone.getsockname()
    with pytest.raises(ConnectError, match="nothing listens"):
        await connect(address, CLIENT, None, quick_settings(handshake_timeout_s=60), alpn=ALPN)


async def test_a_name_that_does_not_resolve_is_an_address_error() -> None:
    with pytest.raises(AddressError):
        await connect(("no such host", 1), CLIENT, None, quick_settings(), alpn=ALPN)


async def test_an_address_in_use_is_an_address_error() -> None:
    settings = quick_settings()
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        with pytest.raises(AddressError, match="cannot listen"):
            async with serve(listener.address, SERVER, settings, greet_and_echo, alpn=ALPN):
                raise AssertionError("two listeners share an address")


async def test_a_cancelled_dial_leaves_nothing_behind() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(LOOPBACK)
        dialling = asyncio.create_task(
            connect(silent.getsockname(), CLIENT, None, quick_settings(), alpn=ALPN)
        )
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, silent.recv, 2_000)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling


async def test_an_orderly_close_is_patient_while_the_remote_makes_progress() -> None:
    settings = quick_settings(close_timeout_s=1.0)
    async with linked(settings) as (client, server):
        out, stream = await one_way(client, server)
        await out.write(bytes(MIB // 2))
        closing = asyncio.create_task(client.close())
        taken = 0
        while data := await stream.read(16_384):  # all of it takes longer than one timeout
            taken += len(data)
            await asyncio.sleep(0.04)
        assert taken == MIB // 2
        await closing
