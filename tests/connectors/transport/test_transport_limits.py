"""What strangers and greedy peers can take from a listener is bounded, and whose datagrams are read next."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.packet import QuicPacketType, pull_quic_header

from culm_connectors.transport import Address, CloseCode, CloseOrigin, ConnectError
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.quic.configuration import configuration
from culm_connectors.transport.quic.library import CreditedQuicConnection
from culm_connectors.transport.quic.turns import Turns
from tests.support.connectors.quic import (
    ALPN,
    LOOPBACK,
    first_datagram,
    greet_and_echo,
    identity,
    quick_settings,
    raw_socket,
)
from tests.support.process.waiting import ended, until

SERVER = identity(1)
CONNECTION_REFUSED = 2


async def answer_to(raw: socket.socket) -> bytes:
    return await ended(asyncio.get_running_loop().sock_recv(raw, 2_000))


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_address"])
async def test_connections_above_a_limit_are_turned_away_at_once(limit: str) -> None:
    settings = quick_settings(**{limit: 2})
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        connections = [
            await connect(listener.address, identity(2), None, settings, alpn=ALPN) for _ in range(2)
        ]
        with pytest.raises(ConnectError) as caught:
            await connect(listener.address, identity(3), None, settings, alpn=ALPN)
        reason = caught.value.reason
        assert reason is not None
        assert (reason.code, reason.application, reason.origin) == (
            CONNECTION_REFUSED,
            False,
            CloseOrigin.REMOTE,
        )
        assert listener.refusals["connections"] == 1
        await connections[0].close()
        await until(lambda: listener._per_address["127.0.0.1"] < 2)
        again = await connect(listener.address, identity(3), None, settings, alpn=ALPN)
        for connection in (connections[1], again):
            await connection.close()


async def test_a_peer_with_too_many_connections_loses_its_oldest() -> None:
    settings = quick_settings(max_connections_per_peer=2)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        other = await connect(listener.address, identity(3), None, settings, alpn=ALPN)
        mine = [await connect(listener.address, identity(2), None, settings, alpn=ALPN) for _ in range(3)]
        reason = await ended(mine[0].wait_closed())
        assert (reason.code, reason.origin) == (CloseCode.SUPERSEDED, CloseOrigin.REMOTE)
        assert listener.closed == {(ALPN, "superseded"): 1}
        assert [connection.close_reason for connection in (other, *mine[1:])] == [None] * 3
        for connection in (other, *mine):
            await connection.close()


async def test_unfinished_handshakes_are_bounded_and_forgotten_in_time() -> None:
    settings = quick_settings(max_half_open=3, handshake_timeout_s=0.5)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            for _ in range(5):
                raw.send(first_datagram(settings))
            await until(lambda: listener.refusals["half_open"] == 2)
            assert len(listener._half_open) == 3
            await until(lambda: not listener._half_open)
            await until(lambda: not listener._by_connection_id)
        connection = await connect(listener.address, identity(2), None, settings, alpn=ALPN)
        await connection.close()


async def test_a_client_must_prove_its_address_while_many_handshakes_are_under_way() -> None:
    settings = quick_settings(retry_above_half_open=2)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        easy = await connect(listener.address, identity(2), None, settings, alpn=ALPN)
        assert listener.refusals["retry"] == 0
        with raw_socket(listener.address) as raw:
            for _ in range(2):
                raw.send(first_datagram(settings))
            await until(lambda: len(listener._half_open) == 2)
            raw.send(first_datagram(settings))
            await until(lambda: listener.refusals["retry"] == 1)
            assert len(listener._half_open) == 2
            proven = await connect(listener.address, identity(3), SERVER.peer_id, settings, alpn=ALPN)
            assert listener.refusals["retry"] == 2
            await proven.close()
        await easy.close()


async def test_a_token_that_is_not_ours_is_worth_nothing_while_tokens_are_asked_for() -> None:
    settings = quick_settings(retry_above_half_open=0)
    options = configuration(identity(9), settings, alpn=ALPN, is_client=True, remote_host="127.0.0.1")
    options.token = b"a token of somebody else"
    quic = CreditedQuicConnection(settings, configuration=options)
    quic.connect(("127.0.0.1", 1), now=0.0)
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            raw.send(quic.datagrams_to_send(now=0.0)[0][0])
            await until(lambda: listener.refusals["token"] == 1)
        assert not listener._half_open


async def test_a_foreign_token_does_no_harm_where_none_is_needed() -> None:
    settings = quick_settings()
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        options = configuration(identity(9), settings, alpn=ALPN, is_client=True, remote_host="127.0.0.1")
        options.token = b"a token of a process before this one"
        quic = CreditedQuicConnection(settings, configuration=options)
        quic.connect(("127.0.0.1", 1), now=0.0)
        with raw_socket(listener.address) as raw:
            raw.send(quic.datagrams_to_send(now=0.0)[0][0])
            await until(lambda: len(listener._half_open) == 1)


async def test_an_unknown_version_is_answered_with_the_known_ones() -> None:
    settings = quick_settings()
    datagram = bytearray(first_datagram(settings))
    datagram[1:5] = b"\x1a\x2a\x3a\x4a"
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            raw.send(bytes(datagram))
            header = pull_quic_header(Buffer(data=await answer_to(raw)))
            assert header.packet_type == QuicPacketType.VERSION_NEGOTIATION
            assert header.supported_versions == [1]


async def test_neither_small_nor_unreadable_first_datagrams_are_remembered() -> None:
    settings = quick_settings()
    whole = first_datagram(settings)
    spoiled = whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        with raw_socket(listener.address) as raw:
            raw.send(whole[:1_199])
            raw.send(spoiled)
            await until(lambda: listener.refusals["undecryptable"] == 1)
        assert not listener._half_open
        assert not listener._by_connection_id
        assert not listener._per_address


HERE: Address = ("127.0.0.1", 1)


class Reader:
    """Takes datagrams and writes into a common log who read; each costs `cost_s` on the loop's clock."""

    def __init__(self, name: str, log: list[str], clock: Clock, cost_s: float = 0.0) -> None:
        self.name = name
        self.got: list[bytes] = []
        self.settled = 0
        self._log = log
        self._clock = clock
        self._cost_s = cost_s

    def receive(self, data: bytes, address: Address) -> None:
        self.got.append(data)
        self._log.append(self.name)
        self._clock.now_s += self._cost_s

    def settle(self) -> None:
        self.settled += 1


class Clock:
    """A loop whose time passes only where readers say that it does."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.rounds: list[object] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: object) -> object:
        self.rounds.append(callback)
        return asyncio.get_running_loop().call_soon(lambda: None)


def turns_on(clock: Clock) -> Turns:
    turns = Turns()
    turns._loop = clock  # type: ignore[assignment]
    return turns


async def test_takers_are_read_in_turns_and_each_in_order() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    many, few = Reader("many", log, clock), Reader("few", log, clock)
    for number in range(100):
        turns.add(many, b"%d" % number, HERE)
    for number in range(2):
        turns.add(few, b"%d" % number, HERE)
    turns.run()
    assert log[:34] == ["many"] * 32 + ["few"] * 2
    assert many.got == [b"%d" % number for number in range(100)]
    assert few.got == [b"0", b"1"]
    assert (many.settled, few.settled) == (4, 1)


async def test_expensive_datagrams_end_their_turn_and_the_round() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    costly, honest = Reader("costly", log, clock, cost_s=0.01), Reader("honest", log, clock)
    for _ in range(50):
        turns.add(costly, b"x", HERE)
    turns.add(honest, b"y", HERE)
    turns.run()
    assert log == ["costly"]
    assert len(clock.rounds) == 1
    turns.run()
    assert log == ["costly"]  # a round is due already, and the loop has its time until then
    clock.rounds.pop()()  # type: ignore[operator]
    assert log == ["costly", "honest", "costly"]


async def test_what_is_over_the_share_of_a_taker_is_dropped_and_counted() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    flooding, honest = Reader("flooding", log, clock), Reader("honest", log, clock)
    for _ in range(3_000):
        turns.add(flooding, bytes(1_200), HERE)
    turns.add(honest, b"y", HERE)
    assert turns.dropped == 3_000 - 2 * 1_024 * 1_024 // 1_456
    turns.run()
    assert len(flooding.got) + turns.dropped == 3_000
    assert honest.got == [b"y"]


async def test_all_that_waits_together_is_bounded() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    readers = [Reader(str(number), log, clock) for number in range(500)]
    for reader in readers:
        for _ in range(100):
            turns.add(reader, bytes(1_200), HERE)
    assert sum(inbox.size for inbox in turns._waiting.values()) <= 32 * 1_024 * 1_024
    turns.run()
    assert all(reader.got for reader in readers)


async def test_a_taker_that_is_forgotten_in_its_own_turn_reads_no_more() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    leaving = Reader("leaving", log, clock)
    for _ in range(100):
        turns.add(leaving, b"x", HERE)
    settle = leaving.settle
    leaving.settle = lambda: (settle(), turns.forget(leaving))  # type: ignore
    turns.run()
    assert len(leaving.got) == 32


async def test_rounds_go_on_by_themselves_until_nothing_waits() -> None:
    turns = Turns()
    log: list[str] = []
    reader = Reader("slow", log, Clock())
    take = reader.receive

    def slowly(data: bytes, address: Address) -> None:
        take(data, address)
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.003
        while loop.time() < until:
            pass

    reader.receive = slowly  # type: ignore[method-assign]
    for _ in range(10):
        turns.add(reader, b"x", HERE)
    turns.run()
    assert Counter(log)["slow"] < 10
    await until(lambda: Counter(log)["slow"] == 10)
    turns.stop()
