"""Small parts of a listener: settings, files that appear on request, handlers by protocol, logging."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from culm_connectors.rate_limit import LimitedLog
from culm_connectors.transport import (
    Authorise,
    CloseCode,
    ConnectError,
    Connection,
    Identity,
    Refusal,
    Service,
    TransportSettings,
)
from culm_connectors.transport.codes import describe
from culm_connectors.transport.principal import neighbourhood
from culm_connectors.transport.quic import Listener, connect, serve, serve_all
from culm_connectors.transport.quic.endpoint import UdpEndpoint
from culm_connectors.transport.quic.listener import allow_everybody
from tests.support.connectors.quic import ALPN, LOOPBACK, greet_and_echo, identity, quick_settings, raw_socket
from tests.support.hostile.quic import initial, sparse_crypto
from tests.support.process.waiting import until, while_working


@pytest.mark.parametrize(
    ("setting", "host", "expected"),
    [
        (1_452, "127.0.0.1", 1_452),
        ("auto", "127.0.0.1", 8_900),
        ("auto", "::1", 8_900),
        ("auto", "192.0.2.1", 1_452),
        ("auto", "fe80::1%eth0", 1_452),
    ],
)
def test_the_datagram_size_follows_the_setting_and_the_remote(setting: Any, host: str, expected: int) -> None:
    assert TransportSettings(datagram_bytes=setting).datagram_bytes_towards(host) == expected


@pytest.mark.parametrize(
    "nonsense",
    [
        {"datagram_bytes": 1_199},
        {"datagram_bytes": "large"},
        {"send_bound_bytes": 65_536, "send_resume_bytes": 65_536},
        {"receive_window_bytes": 65_536, "stream_receive_window_bytes": 131_072},
        {"max_streams": 0},
        {"idle_timeout_s": 0},
        {"no_such_setting": 1},
    ],
)
def test_nonsense_is_refused(nonsense: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TransportSettings.model_validate(nonsense)


def test_a_close_code_has_a_name_where_it_is_ours() -> None:
    assert describe(CloseCode.WRONG_PEER, application=True) == "wrong_peer (0x131)"
    assert describe(0x999, application=True) == "code 0x999"
    assert describe(0x131, application=False) == "QUIC error 0x131"


def test_no_close_code_looks_like_the_handshake_error_of_a_stolen_certificate() -> None:
    assert 0x133 not in set(CloseCode)


async def test_key_log_and_qlog_are_written_on_request_and_the_key_log_is_private(tmp_path: Path) -> None:
    keys, traces = tmp_path / "keys.log", tmp_path / "qlog"
    settings = quick_settings(debug_key_log=keys, debug_qlog_directory=traces)
    async with serve(LOOPBACK, identity(1), settings, greet_and_echo, alpn=ALPN) as listener:
        connection = await connect(listener.address, identity(2), None, settings, alpn=ALPN)
        await connection.close()
    assert "CLIENT_TRAFFIC_SECRET_0" in keys.read_text()
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    for role in ("client", "server"):
        assert len(list((traces / role).glob("*.qlog"))) == 1


async def test_the_transport_speaks_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as trial:
            trial.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    settings = quick_settings()
    async with serve(("::1", 0), identity(1), settings, greet_and_echo, alpn=ALPN) as listener:
        connection = await connect(listener.address, identity(2), None, settings, alpn=ALPN)
        assert connection.remote_address == listener.address
        await connection.close()


async def test_a_datagram_that_the_network_cannot_carry_is_dropped_and_counted() -> None:
    endpoint = UdpEndpoint(socket.AF_INET, socket_buffer_bytes=1 << 20, on_batch=lambda batch: None)
    endpoint.bind(LOOPBACK)
    endpoint.send(bytes(70_000), endpoint.address)
    assert endpoint.dropped == 1
    endpoint.close()
    endpoint.close()
    endpoint.send(b"after the end", ("127.0.0.1", 9))


async def test_datagrams_that_the_kernel_does_not_take_at_once_are_sent_in_order_later() -> None:
    got: list[bytes] = []
    receiver = UdpEndpoint(
        socket.AF_INET,
        socket_buffer_bytes=1 << 20,
        on_batch=lambda batch: got.extend(data for data, _ in batch),
    )
    receiver.bind(LOOPBACK)
    sender = UdpEndpoint(socket.AF_INET, socket_buffer_bytes=1 << 20, on_batch=lambda batch: None)
    sender.bind(LOOPBACK)
    real = sender._try_send
    refusals = iter([False, False])

    def busy(data: bytes, target: Any) -> bool:
        return next(refusals, True) and real(data, target)

    sender._try_send = busy  # type: ignore[method-assign]
    for number in range(5):
        sender.send(bytes([number]), receiver.address)
    await until(lambda: len(got) == 5)
    assert got == [bytes([number]) for number in range(5)]
    assert not asyncio.get_running_loop().remove_writer(sender._socket.fileno())
    sender.close()
    receiver.close()


@pytest.mark.parametrize(
    ("host", "who"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_who_has_a_network_whole_is_one_client(host: str, who: str) -> None:
    assert neighbourhood(host) == who


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
        connection, _ = await heard(at, identity(2), ALPN)
        with pytest.raises(ConnectError):
            await connect(at.address, identity(2), None, SETTINGS, alpn=OTHER)
        shut.clear()
        two, _ = await heard(at, identity(2), OTHER)
        shut.add(OTHER)
        assert at.judge_again() == 1
        async with while_working():
            assert (await two.wait_closed()).code == CloseCode.REVOKED
        assert connection.close_reason is None
        shut.add(ALPN)
        assert at.judge_again() == 1
        await until(lambda: not at.connections)


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
