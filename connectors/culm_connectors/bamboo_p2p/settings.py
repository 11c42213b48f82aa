"""How Bamboo Point-2-Point is spoken: addresses, application protocols, and bounds of one connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.settings import TransportSettings
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_models.bamboo_p2p.settings import PeerSettings

ALPNS: Final = {"yamf": "bamboo-p2p/2019-10", "yasmf": "bamboo-p2p/2019-10+yasmf"}
"""The application protocol over QUIC, by the flavour of the hashes (R62)."""


@dataclass(frozen=True, slots=True)
class BambooPeerSettings:
    """Bounds of an embedded peer. Sizes in bytes, times in seconds."""

    connection: PeerSettings = field(default_factory=PeerSettings)
    transport: TransportSettings = field(default_factory=TransportSettings)
    tcp: TcpSettings = field(default_factory=TcpSettings)
    tls: TlsFiles = field(default_factory=TlsFiles)
    data_window_bytes: int = 524_288
    """Data of one connection that may be on its way to here (over QUIC: `transport`'s windows)."""
    control_backlog_bytes: int = 1_048_576
    """Control messages that the other end does not read; above it the connection ends."""
    max_spool_bytes: int = 16 * 1024**3
    """Parts of payloads that are not verified, of all connections."""
    max_spool_bytes_per_peer: int | None = None
    """Of them, those that one principal brought, and so the largest payload; None: a quarter."""
    spool_timeout_s: float = 60.0
    """A connection whose data waits for room in the spool, or in its share, for this long ends."""
    spool_expires_s: int = 86_400
    """Parts of a payload of which nothing more came for this long are dropped."""
    busy_share: float = 0.0
    """How much of the worker's time may be taken by the data of one caller, and of one address; 0: any."""
    busy_burst_s: float = 1.0
    """How much of that time may be saved up."""
    progress_timeout_s: float = 20.0
    """A peer that sends nothing for this long, while another one has more, is let go of (per log)."""
    refresh_s: float = 0.5
    """How often it is looked whether another process has changed the folder."""
