"""What strangers and greedy peers can take from a listener is bounded."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.packet import QuicPacketType, pull_quic_header

from culm_connectors.transport import (
    CloseCode,
    CloseOrigin,
    ConnectError,
    connect,
    serve,
)
from culm_connectors.transport.quic.configuration import configuration
from culm_connectors.transport.quic.library import CreditedQuicConnection
from tests.support.quic import (
    ALPN,
    LOOPBACK,
    first_datagram,
    greet_and_echo,
    identity,
    quick_settings,
    raw_socket,
)
from tests.support.waiting import ended, until

SERVER = identity(1)
CONNECTION_REFUSED = 2


async def answer_to(raw: socket.socket) -> bytes:
    return await ended(asyncio.get_running_loop().sock_recv(raw, 2_000))


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_address"])
async def test_connections_above_a_limit_are_turned_away_at_once(limit: str) -> None:
    settings = quick_settings(**{limit: 2})
    async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
        held = [await connect(listener.address, identity(2), None, settings, alpn=ALPN) for _ in range(2)]
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
        await held[0].close()
        await until(lambda: listener._per_address["127.0.0.1"] < 2)
        again = await connect(listener.address, identity(3), None, settings, alpn=ALPN)
        for connection in (held[1], again):
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
