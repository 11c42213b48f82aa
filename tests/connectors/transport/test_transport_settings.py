"""Settings say no to nonsense, debugging files appear on request alone, and sockets fail politely."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from culm_connectors.transport import CloseCode, TransportSettings, connect, serve
from culm_connectors.transport.codes import describe
from culm_connectors.transport.quic.endpoint import UdpEndpoint
from tests.support.quic import ALPN, LOOPBACK, greet_and_echo, identity, quick_settings
from tests.support.waiting import until


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
