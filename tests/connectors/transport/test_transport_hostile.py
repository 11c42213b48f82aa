"""What a hostile remote sends below the streams costs a bounded amount, and ends its own connection alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioquic import tls
from aioquic.quic.packet import QuicErrorCode

from culm_connectors.transport import CloseCode, CloseReason
from culm_connectors.transport.quic import Listener, connect, serve
from culm_connectors.transport.quic.connection import QuicTransportConnection
from tests.support.connectors.quic import (
    ALPN,
    LOOPBACK,
    first_datagram,
    greet_and_echo,
    identity,
    quick_settings,
    raw_socket,
)
from tests.support.hostile.quic import (
    HostileClient,
    crypto_frame,
    hostile_client,
    initial,
    pings,
    sparse_crypto,
    sparse_stream,
    stream_frame,
    undecryptable_initial,
)
from tests.support.process.waiting import until

SERVER, CLIENT, STRANGER_ID = identity(1), identity(2), b"stranger"


@asynccontextmanager
async def attacked(**overrides: int) -> AsyncIterator[tuple[Listener, HostileClient]]:
    """A listener, and one who holds a key that it allows."""
    settings = quick_settings(**overrides)
    async with (
        serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener,
        hostile_client(listener.address, CLIENT, settings, alpn=ALPN) as client,
    ):
        yield listener, client


async def after_initials(*payloads: bytes) -> QuicTransportConnection:
    """The connection that a stranger's Initial packets of one connection id have begun."""
    async with serve(LOOPBACK, SERVER, quick_settings(), greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            for number, payload in enumerate(payloads):
                raw.send(initial(payload, connection_id=STRANGER_ID, number=number))
            await until(lambda: STRANGER_ID in listener._by_connection_id)
            begun = listener._by_connection_id[STRANGER_ID]
            await until(lambda: begun.is_ended)
    return begun


def gaps(connection: QuicTransportConnection) -> int:
    """How many ranges of a client's first one-way stream came out of order."""
    stream = connection.quic._streams.get(2)
    return 0 if stream is None else len(stream.receiver._ranges)


def quic_error(reason: CloseReason | None) -> int:
    assert reason is not None and not reason.application, reason
    return reason.code


async def test_gaps_in_crypto_are_bounded() -> None:
    begun = await after_initials(sparse_crypto(1, 200))
    assert quic_error(begun.close_reason) == QuicErrorCode.CRYPTO_BUFFER_EXCEEDED
    assert len(begun.quic._crypto_streams[tls.Epoch.INITIAL].receiver._ranges) <= 32


async def test_crypto_far_ahead_takes_no_memory() -> None:
    begun = await after_initials(crypto_frame(524_000, b"x"))
    assert quic_error(begun.close_reason) == QuicErrorCode.CRYPTO_BUFFER_EXCEEDED
    assert len(begun.quic._crypto_streams[tls.Epoch.INITIAL].receiver._buffer) <= 16_384


async def test_a_tls_message_that_claims_to_be_large_is_not_waited_for() -> None:
    head = b"\x01" + (1 << 20).to_bytes(3, "big")
    payloads = [crypto_frame(0, head.ljust(1_000, b"x"))]
    payloads += [crypto_frame(1_000 * number, bytes(1_000)) for number in range(1, 20)]
    begun = await after_initials(*payloads)
    assert quic_error(begun.close_reason) == QuicErrorCode.CRYPTO_BUFFER_EXCEEDED
    assert len(begun.quic.tls._receive_buffer) <= 16_384


async def test_gaps_in_a_stream_are_bounded() -> None:
    async with attacked() as (listener, client):
        (served,) = listener.connections
        assert isinstance(served, QuicTransportConnection)
        for number in range(8):
            client.send(sparse_stream(2, 1 + 300 * number, 150))
        assert quic_error(await client.closed()) == QuicErrorCode.PROTOCOL_VIOLATION
        assert gaps(served) <= 110


async def test_as_many_gaps_as_lost_datagrams_can_leave_are_taken() -> None:
    async with attacked() as (listener, client):
        for number in range(100):
            client.send(stream_frame(2, 2_400 * number + 1_200, bytes(1_200)))
        (served,) = listener.connections
        assert isinstance(served, QuicTransportConnection)
        await until(lambda: gaps(served) == 100)
        assert served.close_reason is None


async def test_the_frames_of_a_packet_are_bounded() -> None:
    async with attacked() as (_, client):
        client.send(pings(1_100))
        assert quic_error(await client.closed()) == QuicErrorCode.PROTOCOL_VIOLATION


async def test_a_flood_of_packets_that_bring_nothing_ends_its_connection() -> None:
    async with attacked(idle_frames_per_second=300) as (listener, client):
        for _ in range(20):
            client.send(pings(100))
        reason = await client.closed()
        assert (reason.code, reason.application) == (CloseCode.OVERLOADED, True)
        assert listener.connections == []


async def test_single_pings_count_as_more_than_a_frame() -> None:
    async with attacked(idle_frames_per_second=200) as (_, client):
        for _ in range(100):
            client.send(pings(1) + bytes(30))
        assert (await client.closed()).code == CloseCode.OVERLOADED


async def test_an_unproven_address_gets_no_more_than_three_times_what_it_sent() -> None:
    settings = quick_settings(handshake_timeout_s=0.3)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        sent: list[int] = []
        pass_on = listener._send
        listener._send = lambda data, address: (sent.append(len(data)), pass_on(data, address))  # type: ignore
        with raw_socket(listener.address) as raw:
            first = first_datagram(settings)
            raw.send(first)
            await until(lambda: listener._by_connection_id)
            await until(lambda: not listener._by_connection_id)
        assert 0 < sum(sent) <= 3 * len(first)


async def test_closes_of_a_failed_handshake_are_few_however_much_comes() -> None:
    settings = quick_settings()
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        sent: list[int] = []
        pass_on = listener._send
        listener._send = lambda data, address: (sent.append(len(data)), pass_on(data, address))  # type: ignore
        with raw_socket(listener.address) as raw:
            for number in range(100):
                raw.send(initial(pings(1), connection_id=STRANGER_ID, number=number))
            await until(lambda: listener._by_connection_id)
            await until(lambda: not listener._by_connection_id)
        assert len(sent) <= 3


async def test_noise_in_place_of_first_datagrams_builds_nothing_and_makes_clients_prove_addresses() -> None:
    settings = quick_settings(retry_above_failures=8)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        begun: list[object] = []
        begin = listener._begin
        listener._begin = lambda first, source: (begun.append(first), begin(first, source))[1]  # type: ignore
        with raw_socket(listener.address) as raw:
            for _ in range(40):
                raw.send(undecryptable_initial())
            await until(lambda: listener.refusals["undecryptable"] + listener.refusals["retry"] == 40)
        assert not begun
        assert listener.refusals["retry"] >= 30
        client = await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
        assert len(begun) == 1
        await client.close()


async def test_handshakes_that_fail_make_clients_prove_addresses_too() -> None:
    settings = quick_settings(retry_above_failures=8)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            for _ in range(20):
                raw.send(initial(sparse_crypto(1, 200)))
            await until(lambda: listener.refusals["retry"])


async def test_handshakes_that_failed_count_as_half_open_until_they_are_forgotten() -> None:
    settings = quick_settings(max_half_open=5, retry_above_failures=0)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            for _ in range(20):
                raw.send(initial(sparse_crypto(1, 200)))
            await until(lambda: listener.refusals["half_open"] == 15)
        assert len(listener._by_connection_id) <= 2 * 5
