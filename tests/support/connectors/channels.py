"""Pairs of channels over every transport, alike enough that one set of tests holds them to one contract."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import CloseCode, Connection
from culm_connectors.transport.interface import Address, ByteChannel
from culm_connectors.transport.memory import memory_pair
from culm_connectors.transport.quic import connect, serve
from culm_connectors.transport.stream_channel import StreamChannel
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.listener import serve_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from tests.support.connectors.quic import ALPN, LOOPBACK, identity, lossy_proxy, quick_settings

TCP = TcpSettings(
    receive_bound_bytes=32 * 1024,
    send_bound_bytes=32 * 1024,
    send_resume_bytes=8 * 1024,
    socket_buffer_bytes=64 * 1024,
    idle_timeout_s=0.8,
    close_timeout_s=1.0,
)
_QUIC = quick_settings(ping_interval_s=0.1, silence_timeout_s=0.6, probe_timeout_s=0.3)
SERVER_NAME = "edge.example"


@dataclass(frozen=True)
class Pair:
    """Two ends of a channel. `vanish` makes each end silent for the other, without an end of any kind."""

    client: ByteChannel
    server: ByteChannel
    vanish: Callable[[], None]


class Certificates:
    """An authority, a server's certificate and a client's, as PEM files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Ed25519PrivateKey.generate()
        self.ca = self._write("ca", self._authority, None)
        server, client = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        self.server = TlsFiles(
            certificate=self._write("server", server, SERVER_NAME),
            private_key=self._key("server", server),
            ca=self.ca,
            require_client_certificate=False,
        )
        self.client = TlsFiles(
            ca=self.ca,
            server_name=SERVER_NAME,
            certificate=self._write("client", client, "client"),
            private_key=self._key("client", client),
        )

    def _write(self, name: str, key: Ed25519PrivateKey, host: str | None) -> Path:
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ca")])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._authority.public_key()),
                critical=False,
            )
        )
        if host is None:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            names = [x509.DNSName(host), x509.IPAddress(ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names[:1]), critical=False)
        path = self._folder / f"{name}.pem"
        path.write_bytes(builder.sign(self._authority, None).public_bytes(Encoding.PEM))
        return path

    def _key(self, name: str, key: Ed25519PrivateKey) -> Path:
        path = self._folder / f"{name}.key"
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return path


@contextlib.asynccontextmanager
async def _over_tcp(folder: Path, *, tls: bool) -> AsyncIterator[Pair]:
    certificates = Certificates(folder) if tls else None
    accepted: asyncio.Future[ByteChannel] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold(channel: ByteChannel) -> None:
        accepted.set_result(channel)
        await over.wait()

    async with (
        serve_tcp(LOOPBACK, hold, TCP, tls=certificates.server if certificates else None) as listener,
        relay(listener.address) as link,
    ):
        client = await connect_tcp(link.address, TCP, certificates.client if certificates else None)
        try:
            yield Pair(client, await accepted, link.vanish)
        finally:
            over.set()
            client.abort()


@contextlib.asynccontextmanager
async def _over_quic() -> AsyncIterator[Pair]:
    accepted: asyncio.Future[StreamChannel] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def handler(connection: Connection) -> None:
        stream = await connection.open_stream(bidirectional=True)
        await stream.write(b"!")
        assert stream.receive is not None
        accepted.set_result(StreamChannel(connection, stream, stream.receive))
        await over.wait()

    async with (
        serve(LOOPBACK, identity(1), _QUIC, handler, alpn=ALPN) as listener,
        lossy_proxy(listener.address) as proxy,
    ):
        connection = await connect(proxy.address, identity(2), identity(1).peer_id, _QUIC, alpn=ALPN)
        receive = await connection.accept_stream()
        assert await receive.read(1) == b"!" and receive.send is not None
        try:
            yield Pair(StreamChannel(connection, receive.send, receive), await accepted, proxy.partition)
        finally:
            over.set()
            connection.abort(CloseCode.NORMAL)
            await connection.close()


@contextlib.asynccontextmanager
async def _in_memory() -> AsyncIterator[Pair]:
    client, server = memory_pair(32 * 1024)

    def vanish() -> None:
        client.vanish()
        server.vanish()

    yield Pair(client, server, vanish)


def channel_pair(kind: str, folder: Path) -> contextlib.AbstractAsyncContextManager[Pair]:
    """A pair of one kind: tcp, tls, quic or memory."""
    match kind:
        case "tcp" | "tls":
            return _over_tcp(folder, tls=kind == "tls")
        case "quic":
            return _over_quic()
        case _:
            return _in_memory()


class Relay:
    """Passes bytes of TCP on in both directions until it falls silent."""

    def __init__(self, target: Address) -> None:
        self.address: Address = target
        self._target = target
        self._silent = False
        self._tasks: set[asyncio.Task[None]] = set()

    def vanish(self) -> None:
        """Pass nothing on any more, and keep the connections as they are."""
        self._silent = True

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        for stream_writer in (writer, back):
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                stream_writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, 64 * 1024)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, back))
                group.create_task(self._pass(there, writer))
        except* OSError:
            for stream_writer in (writer, back):
                if not stream_writer.transport.is_closing():
                    # What was broken on one side is broken, not ended, on the other.
                    reset = struct.pack("ii", 1, 0)
                    stream_writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, reset
                    )
                    stream_writer.transport.abort()
        else:
            back.close()
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            if not self._silent:
                writer.write(data)
                await writer.drain()
        if not self._silent:
            writer.write_eof()


@contextlib.asynccontextmanager
async def relay(target: Address) -> AsyncIterator[Relay]:
    """A relay before a TCP listener."""
    link = Relay(target)
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        tasks.add(asyncio.get_running_loop().create_task(link.take(reader, writer)))

    server = await asyncio.start_server(connected, *LOOPBACK)
    host, port = server.sockets[0].getsockname()[:2]
    link.address = host, port
    try:
        yield link
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
