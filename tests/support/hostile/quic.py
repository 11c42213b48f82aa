"""Attacks on a listener below its streams: datagrams that a well-meaning QUIC implementation never sends.

Strangers need no key: `stranger_attacks` yields their datagrams, `flood` sends them at a rate from a socket
of its own. Whoever holds a key has a connection: `HostileClient` sends any frames on it, `keyed_attacks`
yields what one packet of an attack holds.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aioquic import tls
from aioquic._buffer import Buffer
from aioquic.buffer import encode_uint_var
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicFrameType, QuicProtocolVersion

from culm_connectors.transport import Address, CloseCode, CloseReason, Connection, TransportSettings
from culm_connectors.transport.identity import Credentials
from culm_connectors.transport.quic import connect
from culm_connectors.transport.quic.connection import QuicTransportConnection
from tests.support.process.waiting import while_working

INITIAL_BYTES = 1_200
_PACKET_NUMBER_BYTES = 2
_TAG_BYTES = 16
_PING = bytes([QuicFrameType.PING])


# --- frames


def crypto_frame(offset: int, data: bytes) -> bytes:
    """A CRYPTO frame (RFC 9000 section 19.6)."""
    return _frame(QuicFrameType.CRYPTO, offset, len(data)) + data


def stream_frame(stream_id: int, offset: int, data: bytes) -> bytes:
    """A STREAM frame with offset and length (RFC 9000 section 19.8)."""
    return _frame(QuicFrameType.STREAM_BASE | 4 | 2, stream_id, offset, len(data)) + data


def sparse_crypto(first_offset: int, count: int) -> bytes:
    """`count` CRYPTO frames of one byte, at every second offset from `first_offset` on."""
    return b"".join(crypto_frame(first_offset + 2 * number, b"x") for number in range(count))


def sparse_stream(stream_id: int, first_offset: int, count: int) -> bytes:
    """`count` STREAM frames of one byte, at every second offset from `first_offset` on."""
    return b"".join(stream_frame(stream_id, first_offset + 2 * number, b"x") for number in range(count))


def pings(count: int) -> bytes:
    """`count` PING frames."""
    return _PING * count


def _frame(frame_type: int, *fields: int) -> bytes:
    return b"".join(encode_uint_var(value) for value in (frame_type, *fields))


# --- datagrams of strangers


def initial(payload: bytes, *, connection_id: bytes | None = None, number: int = 0) -> bytes:
    """A client's Initial packet that holds `payload`, in a datagram of at least 1,200 bytes.

    `connection_id` (8 bytes) is the destination's; the same one with a further `number` goes on where the
    first packet began.
    """
    connection_id = connection_id or os.urandom(8)
    header = Buffer(capacity=64)
    header.push_uint8(0xC0 | _PACKET_NUMBER_BYTES - 1)
    header.push_uint32(QuicProtocolVersion.VERSION_1)
    for name in (connection_id, connection_id[::-1]):
        header.push_uint8(len(name))
        header.push_bytes(name)
    header.push_uint_var(0)
    payload = payload.ljust(INITIAL_BYTES - header.tell() - 2 - _PACKET_NUMBER_BYTES - _TAG_BYTES, b"\0")
    header.push_uint16(0x4000 | _PACKET_NUMBER_BYTES + len(payload) + _TAG_BYTES)
    header.push_uint16(number)
    keys = CryptoPair()
    keys.setup_initial(cid=connection_id, is_client=True, version=QuicProtocolVersion.VERSION_1)
    return keys.encrypt_packet(header.data, payload, number)


def undecryptable_initial() -> bytes:
    """What looks like a client's first datagram until it is decrypted."""
    packet = initial(pings(1))
    return packet[:-1] + bytes([packet[-1] ^ 1])


def _sparse_crypto_initials(per_connection: int = 64, frames: int = 200) -> Iterator[bytes]:
    while True:
        connection_id = os.urandom(8)
        for number in range(per_connection):
            first_offset = 1 + 2 * frames * number
            yield initial(sparse_crypto(first_offset, frames), connection_id=connection_id, number=number)


stranger_attacks: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "sparse-crypto": _sparse_crypto_initials,
    "far-crypto": lambda: (initial(crypto_frame(524_000, b"x")) for _ in itertools.count()),
    "undecryptable": lambda: (undecryptable_initial() for _ in itertools.count()),
}
"""Endless datagrams by the attack's name; the rates at which they hurt: 60/s, 60/s, 1,500/s."""


async def flood(address: Address, datagrams: Iterator[bytes], *, per_second: float, seconds: float) -> int:
    """Send datagrams to `address` at an even rate; returns how many went out."""
    loop = asyncio.get_running_loop()
    begun, sent = loop.time(), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.setblocking(False)
        raw.connect(address)
        while (elapsed := loop.time() - begun) < seconds:
            while sent < elapsed * per_second:
                with suppress(BlockingIOError, ConnectionRefusedError):
                    raw.send(next(datagrams))
                sent += 1
            await asyncio.sleep(0.005)
    return sent


# --- packets of those who hold a key


@dataclass(frozen=True, slots=True)
class HostileClient:
    """An established connection on which any frames can be sent, past flow control and congestion control."""

    connection: QuicTransportConnection

    def send(self, payload: bytes) -> None:
        """Send one 1-RTT packet that holds exactly these frames."""
        quic = self.connection.quic
        number, quic._packet_number = quic._packet_number, quic._packet_number + 1
        header = (
            bytes([0x40 | _PACKET_NUMBER_BYTES - 1])
            + quic._peer_cid.cid
            + (number & 0xFFFF).to_bytes(_PACKET_NUMBER_BYTES, "big")
        )
        packet = quic._cryptos[tls.Epoch.ONE_RTT].encrypt_packet(header, payload, number)
        self.connection._pump._send_datagram(packet, self.connection.remote_address)

    async def closed(self) -> CloseReason:
        """How the other side ended it."""
        async with while_working():
            return await self.connection.wait_closed()


def _sparse_streams(stream_id: int = 2, frames: int = 150) -> Iterator[bytes]:
    for number in itertools.count():
        yield sparse_stream(stream_id, 1 + 2 * frames * number, frames)


keyed_attacks: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "sparse-stream": _sparse_streams,
    "pings": lambda: itertools.repeat(pings(1_100)),
}
"""Endless payloads of packets by the attack's name; PINGs hurt at 4,000 packets a second."""


@asynccontextmanager
async def hostile_client(
    address: Address, identity: Credentials, settings: TransportSettings, *, alpn: str
) -> AsyncIterator[HostileClient]:
    """Connect with a key that is allowed."""
    connection: Connection = await connect(address, identity, None, settings, alpn=alpn)
    assert isinstance(connection, QuicTransportConnection)
    try:
        yield HostileClient(connection)
    finally:
        connection.abort(CloseCode.NORMAL)
        await connection.close()
