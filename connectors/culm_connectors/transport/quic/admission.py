"""Admission: a server's handling of a first datagram, before it keeps any state about the sender.

A handshake costs a server two signatures and some memory, so the number under way is bounded. If many are
under way, or many failed, a client must first prove by a Retry that its source address is its own (RFC 9000
section 8.1.2). No state is created for a packet that cannot be decrypted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from aioquic._crypto import CryptoError
from aioquic.quic.connection import TRANSPORT_CLOSE_FRAME_CAPACITY
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicFrameType,
    QuicHeader,
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
)
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.retry import QuicRetryTokenHandler

from culm_connectors.rate_limit import TokenBucket
from culm_connectors.transport.interface import Address
from culm_connectors.transport.quic.library import CONNECTION_ID_BYTES, MIN_RESET_BYTES, SUPPORTED_VERSIONS
from culm_connectors.transport.settings import MIN_DATAGRAM_BYTES, TransportSettings

_LOGGER = logging.getLogger(__name__)

_MAX_RESET_BYTES = 42
_MAX_RESETS_PER_S = 100
_RETRY_S = 10.0
"""Seconds for which clients must prove their addresses after too many failures."""


@dataclass(frozen=True, slots=True)
class FirstDatagram:
    """A client's first datagram that may begin a connection, with the ids that the handshake must name."""

    destination_connection_id: bytes
    original_connection_id: bytes
    retry_connection_id: bytes | None


class Admission:
    """Decides which first datagrams begin a connection; `counts` has the number of refused, by reason."""

    def __init__(
        self,
        settings: TransportSettings,
        send: Callable[[bytes, Address], None],
        reset_token: Callable[[bytes], bytes],
    ) -> None:
        self._settings = settings
        self._send = send
        self._reset_token = reset_token
        self._resets_second = 0
        self._resets_sent = 0
        self._tokens = QuicRetryTokenHandler()
        self._loop = asyncio.get_running_loop()
        self._failures = TokenBucket(settings.retry_above_failures, max(1, settings.retry_above_failures))
        self._retry_until_s = 0.0
        self.counts: Counter[str] = Counter()

    def admit(
        self,
        header: QuicHeader,
        packet: bytes,
        payload_offset: int,
        source: Address,
        *,
        half_open: int,
        connections: int,
        from_address: int,
    ) -> FirstDatagram | None:
        """Check a full-size datagram of no known connection; None if it is refused (and answered, if due).

        `packet` is its first packet, whose header ends at `payload_offset`. `half_open`, `connections` and
        `from_address` are the present numbers: handshakes under way, all connections, and those from the
        same source host.
        """
        if header.version is not None and header.version not in SUPPORTED_VERSIONS:
            self._negotiate_version(header, source)
            return None
        if header.packet_type != QuicPacketType.INITIAL:
            return None
        if half_open >= self._settings.max_half_open:
            self.counts["half_open"] += 1
            return None
        many_half_open = half_open >= self._settings.retry_above_half_open
        required = many_half_open or self._loop.time() < self._retry_until_s
        first = self._check_token(header, source, required=required)
        if first is None:
            return None
        if not _decrypts(header, packet, payload_offset):
            self.counts["undecryptable"] += 1
            self.count_failure()
            return None
        if (
            connections >= self._settings.max_connections
            or from_address >= self._settings.max_connections_per_address
        ):
            self.counts["connections"] += 1
            self._send(refuse_initial(header), source)
            return None
        return first

    def count_failure(self) -> None:
        """Count a malformed first datagram or a failed handshake; many of them make Retry required."""
        now_s = self._loop.time()
        if not self._failures.take(1, now_s):
            if now_s >= self._retry_until_s:
                _LOGGER.warning("many handshakes fail: for a while clients must prove their addresses first")
            self._retry_until_s = now_s + _RETRY_S

    def reset(self, header: QuicHeader, size: int, source: Address) -> None:
        """Tell the sender of a packet of `size` bytes that its connection is not known here (any more).

        The answer is shorter than what it answers, so two servers cannot keep each other busy with it, and
        only so many go out a second (RFC 9000 section 10.3.3).
        """
        answer_bytes = min(size - 1, _MAX_RESET_BYTES)
        if answer_bytes < MIN_RESET_BYTES:
            return
        second = int(self._loop.time())
        if second != self._resets_second:
            self._resets_second, self._resets_sent = second, 0
        if self._resets_sent >= _MAX_RESETS_PER_S:
            return
        self._resets_sent += 1
        self.counts["unknown_connection"] += 1
        token = self._reset_token(header.destination_cid)
        noise = os.urandom(answer_bytes - len(token))
        self._send(bytes([0x40 | noise[0] & 0x3F]) + noise[1:] + token, source)

    def _check_token(self, header: QuicHeader, source: Address, *, required: bool) -> FirstDatagram | None:
        destination = header.destination_cid
        if header.token:
            try:
                original = self._tokens.validate_token(
                    address=source, destination_cid=destination, token=header.token, now=self._loop.time()
                )
            except ValueError:
                # It may be a token of a process before this one; without need it counts as none.
                if required:
                    self.counts["token"] += 1
                    return None
            else:
                return FirstDatagram(destination, original, destination)
        elif required:
            self._ask_for_token(header, source)
            return None
        return FirstDatagram(destination, destination, None)

    def _ask_for_token(self, header: QuicHeader, source: Address) -> None:
        assert header.version is not None
        self.counts["retry"] += 1
        connection_id = os.urandom(CONNECTION_ID_BYTES)
        token = self._tokens.create_token(
            address=source,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=connection_id,
            now=self._loop.time(),
        )
        self._send(
            encode_quic_retry(
                version=header.version,
                source_cid=connection_id,
                destination_cid=header.source_cid,
                original_destination_cid=header.destination_cid,
                retry_token=token,
            ),
            source,
        )

    def _negotiate_version(self, header: QuicHeader, source: Address) -> None:
        if header.packet_type == QuicPacketType.VERSION_NEGOTIATION:
            return  # answering one with another would let two servers talk forever
        self._send(
            encode_quic_version_negotiation(
                source_cid=header.destination_cid,
                destination_cid=header.source_cid,
                supported_versions=SUPPORTED_VERSIONS,
            ),
            source,
        )


def _decrypts(header: QuicHeader, packet: bytes, payload_offset: int) -> bool:
    """Return whether a client's first packet decrypts with the Initial keys (RFC 9001 section 5.2)."""
    assert header.version is not None
    keys = CryptoPair()
    keys.setup_initial(cid=header.destination_cid, is_client=False, version=header.version)
    try:
        keys.decrypt_packet(packet, payload_offset, 0)
    except CryptoError:
        return False
    return True


def refuse_initial(header: QuicHeader) -> bytes:
    """Answer a client's first packet with CONNECTION_REFUSED (RFC 9000 section 5.2.2).

    The answer is smaller than what it answers, so it amplifies nothing.
    """
    assert header.version is not None
    keys = CryptoPair()
    keys.setup_initial(cid=header.destination_cid, is_client=False, version=header.version)
    builder = QuicPacketBuilder(
        host_cid=header.destination_cid,
        is_client=False,
        max_datagram_size=MIN_DATAGRAM_BYTES,
        peer_cid=header.source_cid,
        version=header.version,
    )
    builder.start_packet(QuicPacketType.INITIAL, keys)
    frame = builder.start_frame(QuicFrameType.TRANSPORT_CLOSE, capacity=TRANSPORT_CLOSE_FRAME_CAPACITY)
    frame.push_uint_var(QuicErrorCode.CONNECTION_REFUSED)
    frame.push_uint_var(QuicFrameType.PADDING)
    frame.push_uint_var(0)
    datagrams, _ = builder.flush()
    return datagrams[0]
