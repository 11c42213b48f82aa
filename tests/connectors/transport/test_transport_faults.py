"""A bad network delays; noise does nothing; neither changes a byte of a stream."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from culm_connectors.transport import Address, CloseCode, Connection
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.quic.connection import QuicTransportConnection
from tests.support.connectors.quic import (
    ALPN,
    LOOPBACK,
    Faults,
    first_datagram,
    greet_and_echo,
    identity,
    linked,
    lossy_proxy,
    one_way,
    quick_settings,
    raw_socket,
)
from tests.support.process.waiting import ended, until, while_working

SERVER, CLIENT = identity(1), identity(2)
BAD = Faults(loss=0.05, duplicate=0.05, corrupt=0.02, min_delay_s=0.0, max_delay_s=0.008)


async def echo_through(connection: Connection, payload: bytes) -> bytes:
    """Send `payload` to an echoing server and return what comes back."""
    back = await connection.accept_stream()
    assert await back.read(1) == b"!"
    out = await connection.open_stream()

    async def send() -> None:
        await out.write(payload)
        out.finish()

    got = bytearray()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send())
        while data := await back.read():
            got += data
    return bytes(got)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_stream_arrives_intact_through_loss_delay_reorder_and_repeats(seed: int) -> None:
    settings = quick_settings(handshake_timeout_s=30, datagram_bytes=1_200)
    payload = random.Random(seed).randbytes(256 * 1_024)
    async with (
        serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener,
        lossy_proxy(listener.address, to_server=BAD, to_client=BAD, seed=seed) as proxy,
    ):
        client = await connect(proxy.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        async with while_working():
            assert await echo_through(client, payload) == payload
        assert proxy.counts["to_server.lost"] and proxy.counts["to_client.lost"]
        await client.close()


async def test_a_transfer_outlives_a_partition() -> None:
    settings = quick_settings()
    payload = random.Random(4).randbytes(1_024 * 1_024)
    slow = Faults(min_delay_s=0.002, max_delay_s=0.003)
    async with (
        serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener,
        lossy_proxy(listener.address, to_server=slow, to_client=slow) as proxy,
    ):
        client = await connect(proxy.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        transfer = asyncio.create_task(echo_through(client, payload))
        await until(lambda: client.statistics().received_bytes > 100_000)
        proxy.partition()
        await until(lambda: proxy.counts["to_server.lost"] >= 2)
        assert not transfer.done()
        proxy.heal()
        async with while_working():
            assert await transfer == payload
        await client.close()


async def test_a_client_whose_address_changes_keeps_its_connection() -> None:
    settings = quick_settings()
    async with (
        serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener,
        lossy_proxy(listener.address) as proxy,
    ):
        client = await connect(proxy.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        (server,) = listener.connections
        before = server.remote_address
        proxy.rebind()
        assert await echo_through(client, bytes(100_000)) == bytes(100_000)
        assert server.remote_address != before
        await client.close()


def noise(chance: random.Random, real: bytes) -> bytes:
    """A datagram that is nearly, or not at all, one of QUIC."""
    match chance.randrange(6):
        case 0:
            return chance.randbytes(chance.randrange(1, 1_500))
        case 1:  # a long header, nothing sensible behind
            return bytes([0xC0 | chance.randrange(64)]) + b"\x00\x00\x00\x01" + chance.randbytes(1_300)
        case 2:  # a short header for a connection id that nobody has
            return bytes([0x40 | chance.randrange(64)]) + chance.randbytes(60)
        case 3:
            return real[: chance.randrange(1, len(real))]
        case 4:
            position = chance.randrange(len(real))
            return real[:position] + bytes([chance.randrange(256)]) + real[position + 1 :]
        case _:  # a Version Negotiation packet
            return b"\x80\x00\x00\x00\x00" + chance.randbytes(chance.randrange(20, 1_400))


async def test_noise_at_the_listener_harms_nobody() -> None:
    settings = quick_settings(handshake_timeout_s=30, max_half_open=64)
    chance = random.Random(5)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        before = await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        with raw_socket(listener.address) as raw:
            real = first_datagram(settings)
            for _ in range(1_500):
                raw.send(noise(chance, real))
                await asyncio.sleep(0)
            after = await connect(listener.address, identity(3), SERVER.peer_id, settings, alpn=ALPN)
        for connection in (before, after):
            assert await echo_through(connection, b"still here") == b"still here"
            await connection.close()


async def test_noise_at_a_living_connection_harms_nothing() -> None:
    chance = random.Random(6)
    async with linked(quick_settings()) as (client, server):
        out, stream = await one_way(client, server)
        real = first_datagram(quick_settings())
        for side in (client, server):
            assert isinstance(side, QuicTransportConnection)
            for _ in range(500):
                datagram = noise(chance, real)
                if chance.random() < 0.5:  # addressed to a connection id that the side does have
                    identifier = side.quic.host_cid
                    datagram = bytes([0x40 | chance.randrange(64)]) + identifier + datagram
                side.receive(datagram, side.remote_address)
                side.settle()
        await out.write(b"still here")
        assert await stream.read() == b"still here"


async def test_a_failure_inside_the_library_ends_its_own_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = quick_settings()
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        bystander = await connect(listener.address, identity(3), SERVER.peer_id, settings, alpn=ALPN)
        victim = await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        (hit,) = (c for c in listener.connections if c.peer_id == CLIENT.peer_id)
        assert isinstance(hit, QuicTransportConnection)

        def fail(data: bytes, address: Address, now: float) -> Any:
            raise AssertionError("the library did not expect this")

        monkeypatch.setattr(hit.quic, "receive_datagram", fail)
        out = await victim.open_stream()
        await out.write(b"trigger")
        reason = await ended(victim.wait_closed())
        assert reason.code == CloseCode.INTERNAL
        assert await echo_through(bystander, b"still here") == b"still here"
        await bystander.close()
        await victim.close()


@pytest.mark.parametrize("stage", ["datagrams_to_send", "handle_timer"])
async def test_a_failure_of_the_library_while_sending_or_waiting_ends_the_connection(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with linked(quick_settings(close_timeout_s=0.1)) as (client, _):
        assert isinstance(client, QuicTransportConnection)

        def fail(now: float) -> Any:
            raise AssertionError("the library did not expect this")

        monkeypatch.setattr(client.quic, stage, fail)
        out = await client.open_stream()
        await out.write(b"trigger")
        if stage == "handle_timer":
            client._pump._on_timer = lambda: None
            monkeypatch.setattr(client.quic, "get_timer", lambda: 0.0)
            client._pump._fire()
        await ended(client.wait_closed())
