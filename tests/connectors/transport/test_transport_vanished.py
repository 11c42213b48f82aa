"""A remote that vanished without a word is noticed in seconds; one that is slow, or slandered, is kept."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError

from culm_connectors.transport import Address, CloseOrigin, CloseReason, Connection
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.quic.connection import QuicTransportConnection
from tests.support.connectors.quic import (
    ALPN,
    LOOPBACK,
    Faults,
    greet_and_echo,
    identity,
    linked,
    lossy_proxy,
    one_way,
    quick_settings,
    raw_socket,
)
from tests.support.process.waiting import until, while_working

SERVER, CLIENT = identity(1), identity(2)
PATIENT = quick_settings(idle_timeout_s=600, ping_interval_s=300, silence_timeout_s=500, probe_timeout_s=0.4)
"""With these neither silence nor idleness ends a connection while a test lasts."""

SERVER_PROCESS = """
import asyncio
from tests.support.connectors.quic import ALPN, LOOPBACK, greet_and_echo, identity, quick_settings
from culm_connectors.transport.quic import serve

async def main():
    async with serve(LOOPBACK, identity(1), quick_settings(), greet_and_echo, alpn=ALPN) as listener:
        print(listener.address[1], flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def server_process() -> AsyncIterator[tuple[Address, Callable[[], object]]]:
    """An echoing server in a process of its own: its address, and how to kill it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER_PROCESS, stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        async with while_working():
            port = int(await process.stdout.readline())
        yield ("127.0.0.1", port), process.kill
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def dial(address: Address) -> Connection:
    return await connect(address, CLIENT, SERVER.peer_id, PATIENT, alpn=ALPN)


async def ended(connection: Connection) -> CloseReason:
    async with while_working():
        return await connection.wait_closed()


async def test_a_killed_and_restarted_server_tells_its_clients_to_dial_again() -> None:
    async with server_process() as (address, kill):
        client = await dial(address)
        out = await client.open_stream()
        kill()
    async with serve(address, SERVER, PATIENT, greet_and_echo, alpn=ALPN) as listener:
        await out.write(b"are you there?")
        reason = await ended(client)
        assert reason.origin == CloseOrigin.LOST
        assert str(reason) == "lost: reset by a remote that no longer knows this connection"
        assert listener.refusals["unknown_connection"]
        await client.close()
        again = await dial(address)
        await again.close()


async def test_a_killed_server_whose_port_is_closed_is_found_unreachable() -> None:
    async with server_process() as (address, kill):
        client = await dial(address)
        out = await client.open_stream()
        kill()
    await out.write(b"are you there?")
    reason = await ended(client)
    assert (reason.text, reason.origin) == ("unreachable", CloseOrigin.LOST)
    await client.close()


async def test_silence_while_an_answer_is_due_ends_both_ends() -> None:
    settings = quick_settings(
        idle_timeout_s=600, ping_interval_s=0.2, silence_timeout_s=0.8, probe_timeout_s=0.4
    )
    async with (
        serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener,
        lossy_proxy(listener.address) as proxy,
    ):
        client = await connect(proxy.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        (server,) = listener.connections
        proxy.partition()
        for connection in (client, server):
            reason = await ended(connection)
            assert (reason.text, reason.origin) == ("unreachable", CloseOrigin.LOST)
        await client.close()


async def test_unacknowledged_bytes_alone_make_silence_count() -> None:
    settings = quick_settings(
        idle_timeout_s=600, ping_interval_s=300, silence_timeout_s=0.8, probe_timeout_s=0.4
    )
    async with (
        serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener,
        lossy_proxy(listener.address) as proxy,
    ):
        client = await connect(proxy.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        out = await client.open_stream()
        proxy.partition()
        await out.write(b"into the void")
        assert (await ended(client)).text == "unreachable"
        await client.close()


async def test_silence_where_nothing_is_due_ends_nothing() -> None:
    settings = quick_settings(silence_timeout_s=0.2, probe_timeout_s=0.1)
    async with linked(settings) as (client, server):
        out, stream = await one_way(client, server)
        await asyncio.sleep(1)
        assert client.close_reason is None and server.close_reason is None
        await out.write(b"still here")
        assert await stream.read() == b"still here"


async def test_a_forged_hint_does_not_end_a_healthy_connection() -> None:
    async with linked(PATIENT) as (client, server):
        out, stream = await one_way(client, server)
        assert isinstance(client, QuicTransportConnection)
        for _ in range(3):
            for _ in range(100):
                client.probe()
            await until(lambda: client._liveness._probe is None)
        assert client.close_reason is None
        await out.write(b"still here")
        assert await stream.read() == b"still here"


async def test_a_link_that_loses_every_fifth_datagram_is_kept() -> None:
    settings = quick_settings(
        datagram_bytes=1_200,
        handshake_timeout_s=30,
        ping_interval_s=0.2,
        silence_timeout_s=2.0,
        probe_timeout_s=1.0,
    )
    bad = Faults(loss=0.2, max_delay_s=0.02)
    async with (
        serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener,
        lossy_proxy(listener.address, to_server=bad, to_client=bad, seed=7) as proxy,
    ):
        client = await connect(proxy.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        assert isinstance(client, QuicTransportConnection)
        back = await client.accept_stream()
        assert await back.read(1) == b"!"
        out = await client.open_stream()
        async with while_working():
            for number in range(20):
                client.probe()
                await out.write(bytes([number]) * 3_000)
                taken = 0
                while taken < 3_000:
                    taken += len(await back.read())
                await asyncio.sleep(0.15)
        assert proxy.counts["to_server.lost"] and proxy.counts["to_client.lost"]
        assert [c.close_reason for c in (client, *listener.connections)] == [None, None]
        await client.close()


async def test_a_reset_is_shorter_than_its_cause_and_carries_the_token() -> None:
    async with serve(LOOPBACK, SERVER, PATIENT, greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            for size, expected in ((22, 21), (30, 29), (1_200, 42)):
                raw.send(b"\x41" + b"unknown!" + bytes(size - 9))
                async with while_working():
                    answer = await asyncio.get_running_loop().sock_recv(raw, 2_000)
                assert len(answer) == expected
                assert answer[0] & 0xC0 == 0x40
                assert answer[-16:] == SERVER.reset_token(b"unknown!")
            raw.send(b"\x41" + b"unknown!" + bytes(12))  # nothing shorter would look like a packet
            for _ in range(300):
                raw.send(b"\x41" + b"unknown!" + bytes(50))
            probe = await dial(listener.address)
            assert 3 < listener.refusals["unknown_connection"] < 303
            await probe.close()


async def test_a_reset_without_the_token_is_noise() -> None:
    async with linked(PATIENT) as (client, server):
        out, stream = await one_way(client, server)
        assert isinstance(client, QuicTransportConnection)
        client.receive(b"\x41" + bytes(41), client.remote_address)
        client.receive(b"\x41" + bytes(25) + SERVER.reset_token(b"another!"), client.remote_address)
        client.settle()
        assert client.close_reason is None
        await out.write(b"still here")
        assert await stream.read() == b"still here"


def test_a_probe_must_be_shorter_than_the_silence() -> None:
    with pytest.raises(ValidationError, match="probe_timeout_s"):
        quick_settings(silence_timeout_s=1, probe_timeout_s=1)
