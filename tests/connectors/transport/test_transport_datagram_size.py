"""Datagrams are as large as the remote takes and the path carries, whatever the settings hope for."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aioquic.buffer import encode_uint_var
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket
from aioquic.tls import Epoch

from culm_connectors.transport import Connection
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.quic.connection import QuicTransportConnection
from culm_connectors.transport.quic.library import CreditedQuicConnection
from culm_connectors.transport.quic.path_mtu import PathMtu, ProbingReno
from tests.support.connectors.quic import (
    ALPN,
    LOOPBACK,
    NO_FAULTS,
    Faults,
    LossyProxy,
    identity,
    lossy_proxy,
    quick_settings,
)
from tests.support.process.waiting import until

SERVER, CLIENT = identity(1), identity(2)
PAYLOAD = random.Random(5).randbytes(400_000)


# --- the search by itself


def search(limit: int, carried: int) -> PathMtu:
    """Search a path that carries datagrams of up to `carried` bytes."""
    mtu = PathMtu(limit)
    number = 0
    while (size := mtu.next_probe(1.0)) is not None:
        mtu.probe_sent(number)
        assert mtu.next_probe(1.0) is None, "one probe at a time"
        if size <= carried:
            mtu.acknowledged(number, size)
        else:
            mtu.lost(number, size)
        number += 1
        assert number < 60, "the search ends"
    return mtu


@pytest.mark.parametrize("limit", [1_200, 1_250, 1_452, 8_900, 65_000])
def test_a_path_that_carries_everything_is_used_to_the_limit(limit: int) -> None:
    assert search(limit, 65_000).size == limit


@pytest.mark.parametrize("carried", [1_200, 1_280, 1_400, 1_452, 4_000, 8_899])
def test_the_search_comes_close_to_what_the_path_carries_and_never_above(carried: int) -> None:
    assert carried - 16 < search(8_900, carried).size <= carried


def test_a_probe_that_was_lost_by_chance_is_sent_again() -> None:
    mtu = PathMtu(8_900)
    for number in range(2):
        assert mtu.next_probe(1.0) == 8_900
        mtu.probe_sent(number)
        mtu.lost(number, 8_900)
    mtu.probe_sent(2)
    mtu.acknowledged(2, 8_900)
    assert mtu.size == 8_900


def test_a_search_that_ended_below_the_limit_begins_anew_after_ten_minutes() -> None:
    mtu = search(8_900, 1_452)
    assert mtu.next_probe(600.0) is None
    assert mtu.next_probe(601.0) == 8_900


def test_a_path_that_swallows_large_packets_is_taken_for_a_smaller_one() -> None:
    mtu = search(8_900, 8_900)
    for number in range(100, 106):
        assert mtu.size == 8_900
        mtu.lost(number, 8_900)
    assert mtu.size == 1_200
    assert mtu.next_probe(1.0) == 1_452


def test_losses_beside_arrivals_of_the_same_size_are_congestion() -> None:
    mtu = search(8_900, 8_900)
    mtu.acknowledged(200, 8_900)
    for number in range(100, 120):
        mtu.lost(number, 8_900)
    assert mtu.size == 8_900


def test_a_lost_probe_does_not_slow_the_connection_down() -> None:
    mtu = PathMtu(8_900)
    reno = ProbingReno(mtu)
    packet = QuicSentPacket(
        epoch=Epoch.ONE_RTT,
        in_flight=True,
        is_ack_eliciting=True,
        is_crypto_packet=False,
        packet_number=1,
        packet_type=QuicPacketType.ONE_RTT,
        sent_time=1.0,
        sent_bytes=8_900,
    )
    mtu.probe_sent(1)
    before = reno.congestion_window
    reno.on_packet_sent(packet=packet)
    reno.on_packets_lost(now=2.0, packets=[packet])
    assert (reno.congestion_window, reno.bytes_in_flight) == (before, 0)
    reno.on_packet_sent(packet=packet)
    reno.on_packets_lost(now=2.0, packets=[packet])
    assert reno.congestion_window < before


# --- on connections


class Downloads:
    """A server that sends `PAYLOAD` on the first stream of every connection, and what was sent to it."""

    def __init__(self, proxy: LossyProxy) -> None:
        self.proxy = proxy
        self.served: list[Connection] = []

    @property
    def size(self) -> int:
        """The size of datagrams that the server's end uses at present."""
        (served,) = self.served
        assert isinstance(served, QuicTransportConnection)
        return served.quic.datagram_bytes

    async def take(self) -> bytes:
        """Dial the server and read everything."""
        client = await connect(self.proxy.address, CLIENT, SERVER.peer_id, quick_settings(), alpn=ALPN)
        stream = await client.accept_stream()
        got = bytearray()
        while data := await stream.read():
            got += data
        await client.close()
        return bytes(got)


@asynccontextmanager
async def downloads(to_client: Faults = NO_FAULTS) -> AsyncIterator[Downloads]:
    async def handler(connection: Connection) -> None:
        offered.served.append(connection)
        stream = await connection.open_stream()
        await stream.write(PAYLOAD)
        stream.finish()
        await connection.wait_closed()

    async with (
        serve(LOOPBACK, SERVER, quick_settings(), handler, alpn=ALPN) as listener,
        lossy_proxy(listener.address, to_client=to_client) as proxy,
    ):
        offered = Downloads(proxy)
        yield offered


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of all datagrams that the listener sends."""
    sent: list[int] = []
    take = LossyProxy._from_server

    def note(self: LossyProxy, client: tuple[str, int], data: bytes) -> None:
        sent.append(len(data))
        take(self, client, data)

    monkeypatch.setattr(LossyProxy, "_from_server", note)
    yield sent


async def test_loopback_gets_to_large_datagrams(sizes: list[int]) -> None:
    async with downloads() as offered:
        assert await offered.take() == PAYLOAD
        # The last probe may be on its way when the last of the data is here.
        await until(lambda: offered.size == max(sizes) == 8_900)


async def test_a_remote_that_takes_1452_bytes_gets_no_more(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Announcing(CreditedQuicConnection):
        def _serialize_transport_parameters(self) -> bytes:
            value = encode_uint_var(1_452)
            return super()._serialize_transport_parameters() + bytes([0x03, len(value)]) + value

    monkeypatch.setattr("culm_connectors.transport.quic.dial.CreditedQuicConnection", Announcing)
    async with downloads(Faults(max_bytes=1_452)) as offered:
        assert await offered.take() == PAYLOAD
        await until(lambda: offered.size == max(sizes) == 1_452)


async def test_a_path_that_drops_large_datagrams_carries_everything_in_smaller_ones() -> None:
    async with downloads(Faults(max_bytes=1_400)) as offered:
        assert await offered.take() == PAYLOAD
        assert offered.proxy.counts["to_client.too_large"] > 0
        assert 1_200 <= offered.size <= 1_400


async def test_a_path_that_shrinks_under_way_loses_nothing_for_good() -> None:
    async with downloads() as offered:
        client = await connect(offered.proxy.address, CLIENT, SERVER.peer_id, quick_settings(), alpn=ALPN)
        stream = await client.accept_stream()
        got = bytearray(await stream.read())
        await until(lambda: offered.size == 8_900)
        offered.proxy.to_client = Faults(max_bytes=1_300)
        while data := await stream.read():
            got += data
        assert bytes(got) == PAYLOAD
        assert offered.proxy.counts["to_client.too_large"] > 0
        assert offered.size <= 1_300
        await client.close()


async def test_every_connection_begins_with_datagrams_of_1200_bytes(sizes: list[int]) -> None:
    async with downloads(Faults(max_bytes=1_200)) as offered:
        assert await offered.take() == PAYLOAD
        assert sizes[0] <= 1_200
        assert offered.size == 1_200
