"""Several application protocols at one address: each has its own handler and its own admission."""

from __future__ import annotations

import asyncio

import pytest

from culm_connectors.transport import (
    Address,
    CloseCode,
    ConnectError,
    Connection,
    Identity,
    Listener,
    Refusal,
    Service,
    connect,
    serve,
)
from culm_connectors.transport.listener import allow_everybody
from tests.support.quic import ALPN, LOOPBACK, eventually, identity, quick_settings

OTHER = "culm/other/1"
SETTINGS = quick_settings()


def saying(word: bytes) -> Service:
    async def handler(connection: Connection) -> None:
        await (await connection.open_stream()).write(word)
        await connection.wait_closed()

    return Service(handler, allow_everybody)


def nobody(peer_id: bytes, address: Address) -> Refusal | None:
    return Refusal("not here")


async def heard(listener: Listener, client: Identity, alpn: str) -> tuple[Connection, bytes]:
    connection = await connect(listener.address, client, None, SETTINGS, alpn=alpn)
    stream = await connection.accept_stream()
    return connection, await stream.read()


async def test_each_protocol_reaches_its_own_handler() -> None:
    first = saying(b"first").on_connection
    async with serve(
        LOOPBACK, identity(1), SETTINGS, first, alpn=ALPN, beside={OTHER: saying(b"other")}
    ) as at:
        heard_words = {}
        for alpn in (ALPN, OTHER):
            connection, heard_words[alpn] = await heard(at, identity(2), alpn)
            await connection.close()
        assert heard_words == {ALPN: b"first", OTHER: b"other"}
        with pytest.raises(ConnectError):
            await connect(at.address, identity(2), None, SETTINGS, alpn="culm/unknown/1")


async def test_who_may_come_in_is_judged_by_protocol() -> None:
    first, other = saying(b"first"), saying(b"other")
    async with serve(
        LOOPBACK,
        identity(1),
        SETTINGS,
        first.on_connection,
        alpn=ALPN,
        beside={OTHER: Service(other.on_connection, nobody)},
    ) as at:
        one, _ = await heard(at, identity(2), ALPN)
        with pytest.raises(ConnectError):
            await connect(at.address, identity(2), None, SETTINGS, alpn=OTHER)
        at.set_authorise(allow_everybody, OTHER)
        two, _ = await heard(at, identity(2), OTHER)
        assert at.set_authorise(nobody, OTHER) == 1
        async with asyncio.timeout(10):
            assert (await two.wait_closed()).code == CloseCode.REVOKED
        assert one.close_reason is None
        assert at.set_authorise(nobody) == 1
        await eventually(lambda: not at.connections)
