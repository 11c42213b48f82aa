"""Doors on this machine: a QUIC and a TCP listener on loopback, and a byte to each and back."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from culm_connectors.transport.identity import PRIVATE_KEY_BYTES, Identity
from culm_connectors.transport.interface import ByteChannel, Connection, SendStream
from culm_connectors.transport.quic.dial import connect
from culm_connectors.transport.quic.listener import serve
from culm_connectors.transport.settings import TransportSettings
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.listener import serve_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.doctor.finding import Finding, text_of

_ALPN = "culm-doctor/1"
_BYTE = b"?"
_HOST = "127.0.0.1"
_QUIC_ADVICE = (
    "let UDP on the interface `lo` pass the firewall (`nft list ruleset` or `iptables -S` shows its rules) "
    "and out of any sandbox of this process; `sysctl net.core.rmem_max` shows the limit of UDP buffers"
)
_TCP_ADVICE = (
    "let TCP on the interface `lo` pass the firewall (`nft list ruleset` or `iptables -S` shows its rules) "
    "and out of any sandbox of this process"
)


def check_quic_door(timeout_s: float) -> Finding:
    """Check that a QUIC connection on loopback carries a byte there and back."""
    return _checked("quic door", "UDP", _through_quic, timeout_s, _QUIC_ADVICE)


def check_tcp_door(timeout_s: float) -> Finding:
    """Check that a TCP connection on loopback carries a byte there and back."""
    return _checked("tcp door", "TCP", _through_tcp, timeout_s, _TCP_ADVICE)


class NoEcho(Exception):
    """The byte did not come back."""


def _checked(
    name: str, network: str, through: Callable[[], Awaitable[int]], timeout_s: float, advice: str
) -> Finding:
    async def limited() -> int:
        async with asyncio.timeout(timeout_s):
            return await through()

    began_s = time.monotonic()
    try:
        port = asyncio.run(limited())
    except TimeoutError:
        return Finding(name, "failed", f"{_HOST} ({network}): no answer within {timeout_s:g} s", advice)
    except Exception as error:
        return Finding(name, "failed", f"{_HOST} ({network}): {text_of(error)}", advice)
    took_ms = 1000 * (time.monotonic() - began_s)
    detail = f"opened {_HOST} port {port} ({network}), dialled it, a byte there and back: {took_ms:.0f} ms"
    return Finding(name, "ok", detail)


async def _through_quic() -> int:
    async def echo(connection: Connection) -> None:
        stream = await connection.accept_stream()
        data = await stream.read(1)
        assert stream.send is not None, "the client opens a bidirectional stream"
        await stream.send.write(data)

    opened: list[SendStream] = []

    async def send(connection: Connection) -> None:
        stream = await connection.open_stream(bidirectional=True)
        opened.append(stream)
        await stream.write(_BYTE)

    settings = TransportSettings()
    server, client = (Identity.from_private_key(os.urandom(PRIVATE_KEY_BYTES)) for _ in range(2))
    async with serve((_HOST, 0), server, settings, echo, alpn=_ALPN) as listener:
        connection = await connect(
            listener.address, client, server.peer_id, settings, alpn=_ALPN, speak_first=send
        )
        try:
            incoming = opened[0].receive
            assert incoming is not None, "the stream is bidirectional"
            _compare(await incoming.read(1))
        finally:
            await connection.close()
        return listener.address[1]


async def _through_tcp() -> int:
    async def echo(channel: ByteChannel) -> None:
        await channel.write(await channel.read(1))

    settings = TcpSettings()
    async with serve_tcp((_HOST, 0), echo, settings) as listener:
        channel = await connect_tcp(listener.address, settings)
        try:
            await channel.write(_BYTE)
            _compare(await channel.read(1))
        finally:
            await channel.close()
        return listener.address[1]


def _compare(received: bytes) -> None:
    if received != _BYTE:
        raise NoEcho(f"received {received!r} instead of {_BYTE!r}")
