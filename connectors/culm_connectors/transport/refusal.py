"""The datagram that turns a client away before anything is remembered of it (RFC 9000 section 5.2.2)."""

from __future__ import annotations

from aioquic.quic.connection import TRANSPORT_CLOSE_FRAME_CAPACITY
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicErrorCode, QuicFrameType, QuicHeader, QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder

from culm_connectors.transport.settings import MIN_DATAGRAM_BYTES


def refuse_initial(header: QuicHeader) -> bytes:
    """Answer a client's first packet with CONNECTION_REFUSED. Smaller than what it answers."""
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
