"""A protocol is added by what it gives and one line in the table: over QUIC, over TCP and over HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, Judge, QuicDoor, TcpDoor
from culm_connectors.edge.protocol import EdgeContext, EdgeProtocol, until_cancelled
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Ending, ProtocolStatus
from culm_connectors.kafka import TopicReader
from culm_connectors.logs.replicated_logs import ReplicatedLogs
from culm_connectors.metric_families import gauge
from culm_connectors.protocols import LOG_PAYLOADS, PROTOCOLS, ProtocolEntry, load
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport import CloseCode, ConnectError, Connection, Refusal, TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_connectors.transport.principal import Principal
from culm_connectors.transport.quic import connect
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from tests.support.connectors.edge import Edge, running, topics
from tests.support.connectors.quic import LOOPBACK, identity, quick_settings
from tests.support.process.waiting import until, while_working

ALPN = "culm/noop/1"
TOKEN = "open sesame"
_MAX_HEAD_BYTES = 8_192

NOOP_QUIC = ProtocolEntry("noop_quic", f"{__name__}:open_over_quic", "noop_quic")
NOOP_TCP = ProtocolEntry("noop_tcp", f"{__name__}:open_over_tcp", "noop_tcp")
NOOP_HTTP = ProtocolEntry("noop_http", f"{__name__}:open_over_http", "noop_http")


class Noop:
    """A protocol that keeps nothing: what its door serves is all there is to it."""

    topics: Sequence[str] = ()
    readers: Sequence[TopicReader] = ()

    def __init__(self, name: str, door: Callable[[Judge], Door], context: EdgeContext) -> None:
        self._name = name
        self._context = context
        self._is_ready = False
        self.doors: Sequence[Door] = (door(self._judge),)
        self.finished = False

    def _judge(self, principal: Principal) -> Refusal | None:
        return self._context.access.rules(self._name).judge(principal)

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        await ready()
        self._is_ready = True
        await until_cancelled()

    def why_not_ready(self) -> Sequence[str]:
        return () if self._is_ready else ("not yet",)

    def measured(self) -> ProtocolMetrics:
        return ProtocolMetrics()

    def metrics(self) -> Iterator[Metric]:
        yield gauge(f"culm_{self._name}_ready", "1 once it is served", float(self._is_ready))

    def status(self) -> ProtocolStatus:
        return ProtocolStatus()

    def judge_again(self, former: AccessList) -> None:
        pass

    def endings(self, reason: str) -> Sequence[Ending]:
        return ()

    async def finish(self, reason: str) -> None:
        self.finished = True


@asynccontextmanager
async def _opened(
    name: str, door: Callable[[Judge], Door], context: EdgeContext
) -> AsyncIterator[EdgeProtocol]:
    yield Noop(name, door, context)


def open_over_quic(context: EdgeContext) -> AbstractAsyncContextManager[EdgeProtocol] | None:
    listen = context.settings.listen
    if listen is None:
        return None

    async def serve(connection: Connection) -> None:
        stream = await connection.open_stream()
        await stream.write(b"noop")
        await connection.close()

    return _opened("noop_quic", lambda judge: QuicDoor(ALPN, listen, serve, judge), context)


def open_over_tcp(context: EdgeContext) -> AbstractAsyncContextManager[EdgeProtocol]:
    async def serve(channel: ByteChannel) -> None:
        while data := await channel.read():
            await channel.write(data)

    return _opened("noop_tcp", lambda judge: TcpDoor("noop_tcp", LOOPBACK, serve, judge), context)


def open_over_http(context: EdgeContext) -> AbstractAsyncContextManager[EdgeProtocol]:
    """Whoever it is, is known by the token of a request; so the door itself lets everybody in."""

    async def serve(channel: ByteChannel) -> None:
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES and (data := await channel.read()):
            head += data
        principal = Principal.of_address(channel.remote_address)
        for line in head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "authorization":
                token = value.strip().removeprefix("Bearer ")
                principal = Principal.of_token(token, channel.remote_address)
        refused = context.access.rules("noop_http").judge(principal)
        status = HTTPStatus.OK if refused is None else HTTPStatus.UNAUTHORIZED
        first = f"HTTP/1.1 {status.value} {status.phrase}"
        await channel.write(f"{first}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    return _opened("noop_http", lambda _: TcpDoor("noop_http", LOOPBACK, serve, lambda _: None), context)


async def answer(edge: Edge, request: bytes) -> bytes:
    """What the HTTP door says."""
    assert edge.doors is not None
    address = edge.doors.address("noop_http")
    assert address is not None
    channel = await connect_tcp(address, TcpSettings())
    await channel.write(request)
    answered = b""
    while data := await channel.read():
        answered += data
    await channel.close()
    return answered.split(b"\r\n")[0]


@pytest.mark.kafka
async def test_three_protocols_are_added_by_the_table_alone(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    rules = tmp_path / "allowed.toml"
    token = Principal.of_token(TOKEN, LOOPBACK).name
    allowed = (
        f'[peers]\n[noop_quic]\n{identity(1).peer_id.hex()} = ["*"]\n'
        f'[noop_http]\n"{token}" = ["*"]\n[noop_tcp]\n"address:127.0.0.1" = ["*"]\n'
    )
    rules.write_text(allowed)
    edge = Edge(
        ConnectorSettings(directory=tmp_path / "edge", allow_list=rules, reload_interval_s=0.05),
        topics(kafka_bootstrap, topic_prefix),
        protocols=(*PROTOCOLS, NOOP_QUIC, NOOP_TCP, NOOP_HTTP),
    )
    async with running(edge):
        assert edge.doors is not None and edge.address is not None
        assert edge.doors.where().keys() == {"culm/p2panda/1", "culm/sds/1", ALPN, "noop_tcp", "noop_http"}
        names = {metric.name for metric in edge.collector.collect()}
        assert {"culm_p2panda_schemas", "culm_sds_channels", "culm_noop_tcp_ready"} <= names

        connection = await connect(edge.address, identity(1), None, quick_settings(), alpn=ALPN)
        assert await (await connection.accept_stream()).read() == b"noop"
        await connection.close()
        with pytest.raises(ConnectError) as refused:
            await connect(edge.address, identity(2), None, quick_settings(), alpn=ALPN)
        assert refused.value.reason is not None and refused.value.reason.code == CloseCode.IDENTITY

        address = edge.doors.address("noop_tcp")
        assert address is not None
        channel = await connect_tcp(address, TcpSettings())
        await channel.write(b"echo")
        assert await channel.read() == b"echo"

        bearer = f"GET / HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        assert await answer(edge, bearer) == b"HTTP/1.1 200 OK"
        assert await answer(edge, b"GET / HTTP/1.1\r\n\r\n") == b"HTTP/1.1 401 Unauthorized"

        # Rules that have changed end what they no longer allow, at every kind of door.
        rules.write_text(allowed.replace('"address:127.0.0.1" = ["*"]', '"address:127.0.0.1" = []'))
        with pytest.raises(TransportError):
            await channel.read()
        async with while_working():
            await until(lambda: channel.close_reason is not None)
        # Replicated logs are there for p2panda, and whoever else asks for them.
        assert [type(service) for service in edge.services] == [ReplicatedLogs]
    assert all(
        isinstance(protocol, Noop) and protocol.finished for protocol in list(edge.protocols.values())[2:]
    )


def test_the_table_is_light_to_import() -> None:
    heavy = ("aioquic", "lmdb", "confluent_kafka", "culm_connectors.transport")
    program = f"import sys, culm_connectors.protocols; print([n for n in {heavy!r} if n in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_every_entry_names_what_is_there() -> None:
    for entry in PROTOCOLS:
        assert callable(entry.load())
    assert callable(load(LOG_PAYLOADS))
