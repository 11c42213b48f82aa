"""Several application protocols at one address: each has its own handler and its own admission."""

from __future__ import annotations

import pytest

from culm_connectors.transport import (
    Authorise,
    CloseCode,
    ConnectError,
    Connection,
    Identity,
    Listener,
    Refusal,
    Service,
    connect,
    serve_all,
)
from culm_connectors.transport.quic.listener import allow_everybody
from tests.support.quic import ALPN, LOOPBACK, identity, quick_settings
from tests.support.waiting import until, while_working

OTHER = "culm/other/1"
SETTINGS = quick_settings()


def saying(word: bytes) -> Service:
    async def handler(connection: Connection) -> None:
        await (await connection.open_stream()).write(word)
        await connection.wait_closed()

    return Service(handler, allow_everybody)


async def heard(listener: Listener, client: Identity, alpn: str) -> tuple[Connection, bytes]:
    connection = await connect(listener.address, client, None, SETTINGS, alpn=alpn)
    stream = await connection.accept_stream()
    return connection, await stream.read()


async def test_each_protocol_reaches_its_own_handler() -> None:
    services = {ALPN: saying(b"first"), OTHER: saying(b"other")}
    async with serve_all(LOOPBACK, identity(1), SETTINGS, services) as at:
        heard_words = {}
        for alpn in (ALPN, OTHER):
            connection, heard_words[alpn] = await heard(at, identity(2), alpn)
            await connection.close()
        assert heard_words == {ALPN: b"first", OTHER: b"other"}
        with pytest.raises(ConnectError):
            await connect(at.address, identity(2), None, SETTINGS, alpn="culm/unknown/1")


async def test_who_may_come_in_is_judged_by_protocol() -> None:
    shut = {OTHER}

    def judge(alpn: str) -> Authorise:
        return lambda peer_id, address: Refusal("not here") if alpn in shut else None

    services = {alpn: Service(saying(alpn.encode()).on_connection, judge(alpn)) for alpn in (ALPN, OTHER)}
    async with serve_all(LOOPBACK, identity(1), SETTINGS, services) as at:
        one, _ = await heard(at, identity(2), ALPN)
        with pytest.raises(ConnectError):
            await connect(at.address, identity(2), None, SETTINGS, alpn=OTHER)
        shut.clear()
        two, _ = await heard(at, identity(2), OTHER)
        shut.add(OTHER)
        assert at.judge_again() == 1
        async with while_working():
            assert (await two.wait_closed()).code == CloseCode.REVOKED
        assert one.close_reason is None
        shut.add(ALPN)
        assert at.judge_again() == 1
        await until(lambda: not at.connections)
