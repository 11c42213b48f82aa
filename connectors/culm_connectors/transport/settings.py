"""Settings of the transport, with the limits that keep one remote from using up the process."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

MIN_DATAGRAM_BYTES = 1_200
"""The datagram size that every QUIC path must carry (RFC 9000 section 14)."""
ETHERNET_DATAGRAM_BYTES = 1_452
"""The UDP payload that fits an Ethernet frame of 1,500 bytes over IPv6, and therefore over IPv4, too."""
LOOPBACK_DATAGRAM_BYTES = 8_900

_KIB = 1_024
_MIB = 1_024 * 1_024


class TransportSettings(BaseModel):
    """Settings of connections. Sizes are in bytes, times in seconds; the defaults suit the open internet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    datagram_bytes: Annotated[int, Field(ge=MIN_DATAGRAM_BYTES, le=65_000)] | Literal["auto"] = Field(
        "auto",
        description="Largest datagram that is sent; `auto` takes 8900 bytes towards loopback "
        "addresses and 1452 elsewhere. The cost is per datagram, so this setting "
        "determines throughput: 8900 suits jumbo networks, too. The remote's own limit "
        "applies as well. A connection begins with 1200 bytes and finds the path's "
        "limit by probes (RFC 8899).",
    )

    idle_timeout_s: float = Field(
        default=30.0, gt=0, description="A connection on which nothing was received for this long ends."
    )
    ping_interval_s: float = Field(
        default=5.0, gt=0, description="A remote that was silent for this long gets a PING."
    )
    silence_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="The connection ends when nothing was received for this long while an answer "
        "was due: to a PING, or to bytes that were written. A vanished remote is "
        "detected within this time plus `ping_interval_s`.",
    )
    probe_timeout_s: float = Field(
        default=2.0,
        gt=0,
        description="Silence timeout once the network has reported that nothing listens at the "
        "remote's address. It is also the last part of `silence_timeout_s`, in which "
        "the remote is probed repeatedly. It must be below `silence_timeout_s` and at "
        "least four round trips.",
    )
    handshake_timeout_s: float = Field(
        default=5.0,
        gt=0,
        description="Time from the first datagram to the proven peer; for a client, to the first "
        "stream bytes of the server.",
    )
    close_timeout_s: float = Field(
        default=5.0,
        gt=0,
        description="An orderly close gives up when the remote acknowledges no written byte for "
        "this long, and after four times this long in any case.",
    )

    receive_window_bytes: int = Field(
        default=1 * _MIB,
        ge=64 * _KIB,
        le=256 * _MIB,
        description="Largest number of unread bytes of all streams of a connection.",
    )
    stream_receive_window_bytes: int = Field(
        default=256 * _KIB,
        ge=16 * _KIB,
        le=256 * _MIB,
        description="Largest number of unread bytes of one stream. It must not exceed "
        "`receive_window_bytes`.",
    )
    send_bound_bytes: int = Field(
        default=1 * _MIB,
        ge=64 * _KIB,
        le=256 * _MIB,
        description="A stream's writer waits above this number of unacknowledged bytes.",
    )
    send_resume_bytes: int = Field(
        default=256 * _KIB,
        ge=0,
        description="A waiting writer continues below this number of unacknowledged bytes. It must "
        "be below `send_bound_bytes`.",
    )
    max_streams: int = Field(
        default=16,
        ge=1,
        le=4_096,
        description="Number of streams of each kind that a remote may have open at the same time.",
    )

    idle_frames_per_second: int = Field(
        default=20_000,
        ge=0,
        description="Rate of frames without progress above which a connection is closed. Counted "
        "are all frames of a packet that neither carries new stream bytes nor "
        "acknowledges anything (at least 8), and those past the eighth of any other "
        "packet. 0 means unlimited.",
    )

    max_connections: int = Field(default=1_024, ge=1, description="Largest number of connections.")
    max_connections_per_address: int = Field(
        default=128, ge=1, description="Largest number of connections from one address."
    )
    max_connections_per_peer: int = Field(
        default=4,
        ge=1,
        description="Largest number of connections of one peer; above it the peer's oldest "
        "connection is closed.",
    )
    max_half_open: int = Field(
        default=1_024,
        ge=1,
        description="Largest number of handshakes in progress; above it new ones are dropped "
        "without an answer.",
    )
    retry_above_half_open: int = Field(
        default=256,
        ge=0,
        description="Number of handshakes in progress above which a client must first prove its "
        "address (RFC 9000 section 8.1.2).",
    )
    retry_above_failures: int = Field(
        default=32,
        ge=0,
        description="Number of failed first datagrams and handshakes in a second above which "
        "clients must prove their addresses for ten seconds. 0 means unlimited.",
    )

    socket_buffer_bytes: int = Field(
        default=4 * _MIB, ge=64 * _KIB, description="Size of the kernel's socket buffer in each direction."
    )

    debug_key_log: Path | None = Field(
        None,
        description="File that receives the secrets which decrypt captured traffic. For debugging only.",
        examples=["/tmp/culm-keys.log"],
    )
    debug_qlog_directory: Path | None = Field(
        None,
        description="Folder that receives one qlog trace per connection. For debugging only.",
        examples=["/tmp/culm-qlog"],
    )

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.probe_timeout_s >= self.silence_timeout_s:
            raise ValueError("probe_timeout_s must be below silence_timeout_s")
        if self.send_resume_bytes >= self.send_bound_bytes:
            raise ValueError("send_resume_bytes must be below send_bound_bytes")
        if self.stream_receive_window_bytes > self.receive_window_bytes:
            raise ValueError("stream_receive_window_bytes must not exceed receive_window_bytes")
        return self

    def datagram_bytes_towards(self, host: str) -> int:
        """The largest datagram that may be sent to `host` (a numeric address)."""
        if self.datagram_bytes != "auto":
            return self.datagram_bytes
        address = ipaddress.ip_address(host.partition("%")[0])
        return LOOPBACK_DATAGRAM_BYTES if address.is_loopback else ETHERNET_DATAGRAM_BYTES
