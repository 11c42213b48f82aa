"""A connection of the QUIC library (aioquic, pinned exactly) as the rest of the transport needs it.

This module, `bounds` and `path_mtu` alone know the inside of the library. It changes five things:

- receive credit follows what the driver has taken. As shipped, the library raises a limit whenever half of
  it is used, whether or not anybody reads, so one remote could fill the memory;
- both sides show a certificate and no certification authority is asked (`identity` judges the key);
- session tickets and early data stay off: a resumed handshake would prove no key;
- a server's stateless reset tokens are derived, so that it can end a connection which it has forgotten, and a
  client obeys such a reset (RFC 9000 section 10.3), which the library does not;
- datagrams are as large as the remote takes and the path carries. As shipped, the library sends what it is
  told to, whatever the remote announces.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aioquic import tls
from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import (
    CONNECTION_LIMIT_FRAME_CAPACITY,
    END_STATES,
    MAX_STREAM_DATA_FRAME_CAPACITY,
    Limit,
    QuicConnectionState,
    QuicNetworkPath,
)
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicFrameType,
    QuicPacketType,
    QuicProtocolVersion,
    pull_quic_transport_parameters,
)
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream, QuicStreamSender
from cryptography import x509

from culm_connectors.transport.interface import Address, CloseOrigin
from culm_connectors.transport.quic.bounds import BoundedQuicConnection
from culm_connectors.transport.quic.path_mtu import PathMtu, ProbingReno
from culm_connectors.transport.settings import TransportSettings

CONNECTION_ID_BYTES = 8
NO_APPLICATION_PROTOCOL = int(QuicErrorCode.CRYPTO_ERROR) + int(tls.AlertDescription.no_application_protocol)
"""The error with which a server ends a handshake if the client offers no protocol that it serves."""
MIN_RESET_BYTES = 21
"""The shortest stateless reset that still looks like a packet."""
SUPPORTED_VERSIONS = [int(QuicProtocolVersion.VERSION_1)]

# The library reports every malformed packet as a warning; a stranger must not be able to fill the log.
_LIBRARY_LOGGER = logging.getLogger("quic")
if _LIBRARY_LOGGER.level == logging.NOTSET:
    _LIBRARY_LOGGER.setLevel(logging.ERROR)


def acknowledged_bytes(sender: QuicStreamSender) -> int:
    """All bytes of a stream below this offset are acknowledged by the remote's QUIC stack."""
    return sender._buffer_start


@dataclass(slots=True)
class _OpenedStream:
    """Streams of one kind that the remote opened and the driver is done with."""

    released: int = 0


class CreditedQuicConnection(BoundedQuicConnection):
    """An aioquic connection whose receive credit is what the driver took plus a fixed window."""

    tls: tls.Context

    def __init__(
        self,
        settings: TransportSettings,
        *,
        configuration: QuicConfiguration,
        original_destination_connection_id: bytes | None = None,
        retry_source_connection_id: bytes | None = None,
        reset_token: Callable[[bytes], bytes] | None = None,
        takes_ecdsa: bool = False,
    ) -> None:
        # Another kind of key is refused as early as TLS can, and costs us no verification.
        self._certificate_algorithms = [tls.SignatureAlgorithm.ED25519]
        if takes_ecdsa:
            self._certificate_algorithms.append(tls.SignatureAlgorithm.ECDSA_SECP256R1_SHA256)
        super().__init__(
            settings,
            configuration=configuration,
            original_destination_connection_id=original_destination_connection_id,
            retry_source_connection_id=retry_source_connection_id,
        )
        self._path_mtu = PathMtu(configuration.max_datagram_size)
        self._measured_path: QuicNetworkPath | None = None
        self._congestion = self._loss._cc = ProbingReno(self._path_mtu)
        self._resize()
        self._window = settings.receive_window_bytes
        self._stream_window = settings.stream_receive_window_bytes
        self._max_streams = settings.max_streams
        self._closed_by_remote = False
        self._closed_here = False
        self._taken = 0
        self._taken_of_stream: dict[int, int] = {}
        self._bidirectional = _OpenedStream()
        self._unidirectional = _OpenedStream()
        for limit in (self._local_max_streams_bidi, self._local_max_streams_uni):
            limit.value = limit.sent = self._max_streams
        self._reset_token = reset_token
        self._derive_reset_tokens()

    # --- what the adapter needs to know

    @property
    def is_ending(self) -> bool:
        """True once either side has begun to close."""
        return self._close_event is not None or self._state in END_STATES

    @property
    def is_draining(self) -> bool:
        """True once the remote has closed: nothing may be sent any more."""
        return self._state in (QuicConnectionState.DRAINING, QuicConnectionState.TERMINATED)

    @property
    def ending(self) -> ConnectionTerminated | None:
        """The library's event for the end of the connection; `None` until it is known."""
        return self._close_event

    @property
    def ending_origin(self) -> CloseOrigin:
        """The side that ended the connection; meaningful once `ending` is set."""
        if self._closed_by_remote:
            return CloseOrigin.REMOTE
        return CloseOrigin.LOCAL if self._closed_here else CloseOrigin.LOST

    @property
    def can_send(self) -> bool:
        """True if there is an address and a key to send with."""
        return bool(self._network_paths) and bool(self._cryptos)

    @property
    def awaits_answer(self) -> bool:
        """True while something is on its way that the remote must acknowledge."""
        return self._loss.bytes_in_flight > 0

    @property
    def remote_certificates(self) -> list[x509.Certificate]:
        """The certificates that the remote showed and whose first key it proved to hold."""
        first = self.tls._peer_certificate
        return [] if first is None else [first, *self.tls._peer_certificate_chain]

    @property
    def round_trip_s(self) -> float:
        """Smoothed round-trip time; 0 before the first measurement."""
        return self._loss._rtt_smoothed

    @property
    def remote_address(self) -> Address | None:
        """The remote's current address; a client may migrate."""
        address = self.get_peer_address()
        return None if address is None else (address[0], address[1])

    def open_sender(self, *, bidirectional: bool) -> tuple[int, QuicStreamSender]:
        """Create a stream of ours; returns its number and sender."""
        stream_id = self.get_next_available_stream_id(is_unidirectional=not bidirectional)
        self.send_stream_data(stream_id, b"")
        return stream_id, self._streams[stream_id].sender

    def sender_of(self, stream_id: int) -> QuicStreamSender:
        """The sender of a bidirectional stream that the remote opened and that is still known."""
        return self._get_or_create_stream_for_send(stream_id).sender

    def is_ours(self, stream_id: int) -> bool:
        """True if this side opened the stream."""
        return stream_id % 2 == (0 if self._is_client else 1)

    def close(self, error_code: int = 0, frame_type: int | None = None, reason_phrase: str = "") -> None:
        """Close with an application code; the library calls it too, for a remote that breaks QUIC's rules."""
        if not self.is_ending:
            self._closed_here = True
        super().close(error_code, frame_type, reason_phrase)

    def end_trace(self) -> None:
        """Write the qlog trace if there is one."""
        if self._quic_logger is not None and self._configuration.quic_logger is not None:
            self._configuration.quic_logger.end_trace(self._quic_logger)
            self._quic_logger = None

    def _close_begin(self, is_initiator: bool, now: float) -> None:
        self._closed_by_remote = not is_initiator
        super()._close_begin(is_initiator, now)

    # --- stateless reset

    def is_reset(self, data: bytes) -> bool:
        """Return whether a datagram is the remote's stateless reset of this connection."""
        token = self._peer_cid.stateless_reset_token
        return bool(token) and len(data) >= MIN_RESET_BYTES and hmac.compare_digest(data[-16:], token)

    def _replenish_connection_ids(self) -> None:
        super()._replenish_connection_ids()
        self._derive_reset_tokens()

    def _derive_reset_tokens(self) -> None:
        if self._reset_token is not None:
            for connection_id in self._host_cids:
                connection_id.stateless_reset_token = self._reset_token(connection_id.cid)

    # --- credit

    def take(self, stream_id: int, count: int) -> bool:
        """Record that the driver read `count` bytes. Returns True if new credit should be sent now."""
        self._taken += count
        taken = self._taken_of_stream[stream_id] = self._taken_of_stream.get(stream_id, 0) + count
        stream = self._streams.get(stream_id)
        return self._connection_credit_is_due() or (
            stream is not None and self._stream_credit_is_due(stream, taken)
        )

    def release(self, stream_id: int) -> None:
        """Release a stream that the driver read to the end, or that was reset or dropped."""
        taken = self._taken_of_stream.pop(stream_id, 0)
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._taken += max(0, stream.receiver.highest_offset - taken)
        if not self.is_ours(stream_id):
            (self._unidirectional if stream_id & 2 else self._bidirectional).released += 1

    def _connection_credit_is_due(self) -> bool:
        # A limit that was lost on the way has `sent` 0, so it is due again. Half a window of hysteresis keeps
        # the frames rare; it cannot stall a remote, which stops only after a whole window.
        return self._taken + self._window - self._local_max_data.sent >= self._window // 2

    def _stream_credit_is_due(self, stream: QuicStream, taken: int) -> bool:
        if not stream.max_stream_data_local or stream.receiver.is_finished:
            return False
        return taken + self._stream_window - stream.max_stream_data_local_sent >= self._stream_window // 2

    def _write_stream_limits(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream
    ) -> None:
        stream_id = stream.stream_id
        assert stream_id is not None, "streams of the application are numbered"
        taken = self._taken_of_stream.get(stream_id, 0)
        if not self._stream_credit_is_due(stream, taken):
            return
        stream.max_stream_data_local = taken + self._stream_window
        frame = builder.start_frame(
            QuicFrameType.MAX_STREAM_DATA,
            capacity=MAX_STREAM_DATA_FRAME_CAPACITY,
            handler=self._on_max_stream_data_delivery,
            handler_args=(stream,),
        )
        frame.push_uint_var(stream_id)
        frame.push_uint_var(stream.max_stream_data_local)
        stream.max_stream_data_local_sent = stream.max_stream_data_local

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        if self._connection_credit_is_due():
            self._write_limit(builder, self._local_max_data, self._taken + self._window)
        for limit, opened in (
            (self._local_max_streams_bidi, self._bidirectional),
            (self._local_max_streams_uni, self._unidirectional),
        ):
            # The library has raised the value for every stream it is done with; the driver may not be.
            limit.value = granted = opened.released + self._max_streams
            if granted - limit.sent >= max(1, self._max_streams // 2):
                self._write_limit(builder, limit, granted)

    def _write_limit(self, builder: QuicPacketBuilder, limit: Limit, value: int) -> None:
        limit.value = value
        frame = builder.start_frame(
            limit.frame_type,
            capacity=CONNECTION_LIMIT_FRAME_CAPACITY,
            handler=self._on_connection_limit_delivery,
            handler_args=(limit,),
        )
        frame.push_uint_var(value)
        limit.sent = value

    # --- the size of datagrams

    @property
    def datagram_bytes(self) -> int:
        """The largest datagram that is sent at present, probes of larger ones aside."""
        return self._path_mtu.size

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        """Return the datagrams to send, with a probe for a larger datagram size if one is due."""
        path = self._network_paths[0]
        if path is not self._measured_path:
            if self._measured_path is not None:
                self._path_mtu.restart()
            self._measured_path = path
        self._resize()
        datagrams = super().datagrams_to_send(now)
        if self._handshake_confirmed and path.is_validated and not self.is_ending:
            size = self._path_mtu.next_probe(now)
            if size is not None and size <= self._loss.congestion_window - self._loss.bytes_in_flight:
                datagrams += self._probe_for(size, path, now)
        return datagrams

    def _probe_for(self, size: int, path: QuicNetworkPath, now: float) -> list[tuple[bytes, Any]]:
        assert self._version is not None
        builder = QuicPacketBuilder(
            host_cid=self.host_cid,
            is_client=self._is_client,
            max_datagram_size=size,
            packet_number=self._packet_number,
            peer_cid=self._peer_cid.cid,
            quic_logger=self._quic_logger,
            spin_bit=self._spin_bit,
            version=self._version,
        )
        self._path_mtu.probe_sent(self._packet_number)
        builder.start_packet(QuicPacketType.ONE_RTT, self._cryptos[tls.Epoch.ONE_RTT])
        frame = builder.start_frame(QuicFrameType.PING)
        frame.push_bytes(bytes(builder.remaining_buffer_space))
        return self._flush_builder(builder=builder, network_path=path, peer_cid=self._peer_cid.cid, now=now)

    def _resize(self) -> None:
        if self._max_datagram_size != self._path_mtu.size:
            self._max_datagram_size = self._path_mtu.size
            self._loss._pacer._max_datagram_size = self._path_mtu.size
            self._congestion.resize(self._path_mtu.size)

    def _parse_transport_parameters(self, data: bytes, from_session_ticket: bool = False) -> None:
        super()._parse_transport_parameters(data, from_session_ticket)
        announced = pull_quic_transport_parameters(Buffer(data=data)).max_udp_payload_size
        if announced is not None:
            self._path_mtu.lower_limit(announced)

    # --- identity

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        self.tls._signature_algorithms = list(self._certificate_algorithms)
        self.tls._supported_groups = [tls.Group.X25519, tls.Group.SECP256R1]
        if not self._is_client:
            self.tls._request_client_certificate = True
