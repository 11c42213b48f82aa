"""What happens to connections is logged, within a rate that strangers cannot exceed."""

from __future__ import annotations

import logging

import pytest

from culm_connectors.rate_limit import LimitedLog
from culm_connectors.transport import CloseCode, ConnectError, Connection, connect, serve
from tests.support.hostile_quic import initial, sparse_crypto
from tests.support.quic import ALPN, LOOPBACK, greet_and_echo, identity, quick_settings, raw_socket
from tests.support.waiting import until

SERVER, CLIENT = identity(1), identity(2)
NAME = CLIENT.peer_id.hex()[:16]


async def test_a_connection_is_logged_when_it_is_made_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = quick_settings()
    with caplog.at_level(logging.INFO, "culm_connectors.transport"):
        async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
            client = await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
            await client.close()
            await until(lambda: not listener.connections)
    made, ended = caplog.messages
    assert made.startswith(f"peer {NAME} connected from 127.0.0.1 port ")
    assert ended.startswith(f"peer {NAME} at 127.0.0.1 port ")
    assert ended.endswith("is gone: remote, normal (0x100)")


async def test_another_application_protocol_is_logged_as_a_failed_handshake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = quick_settings()
    with caplog.at_level(logging.INFO, "culm_connectors.transport"):
        async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
            with pytest.raises(ConnectError):
                await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn="something/else")
    (failed,) = caplog.messages
    assert "failed: local, QUIC error 0x178: No common ALPN protocols" in failed


async def test_a_close_that_the_handler_logs_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(connection: Connection) -> None:
        await (await connection.open_stream()).write(b"!")
        connection.abort(CloseCode.PROTOCOL, "no such message")

    settings = quick_settings()
    with caplog.at_level(logging.INFO, "culm_connectors.transport"):
        async with serve(LOOPBACK, SERVER, settings, handler, alpn=ALPN) as listener:
            with pytest.raises(ConnectError):
                await connect(listener.address, CLIENT, SERVER.peer_id, settings, alpn=ALPN)
    assert len(caplog.messages) == 1


async def test_handshakes_that_fail_in_a_row_write_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    settings = quick_settings(retry_above_failures=0)
    with caplog.at_level(logging.INFO, "culm_connectors.transport"):
        async with serve(LOOPBACK, SERVER, settings, greet_and_echo, alpn=ALPN) as listener:
            listener._log = LimitedLog(logging.getLogger("culm_connectors.transport"), interval_s=3_600)
            with raw_socket(listener.address) as raw:
                for _ in range(40):
                    raw.send(initial(sparse_crypto(1, 200)))
                await until(lambda: sum(listener._log._left_out.values()) == 39)
    assert len(caplog.messages) == 1
