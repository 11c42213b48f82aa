"""Settings of an embedded peer: application protocols and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport.settings import TransportSettings
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_models.bamboo_p2p.settings import BambooSettings

ALPNS: Final = {"yamf": "bamboo-p2p/2019-10", "yasmf": "bamboo-p2p/2019-10+yasmf"}
"""The application protocol over QUIC, by the flavour of hashes (R62)."""


@dataclass(frozen=True, slots=True)
class BambooPeerSettings:
    """Limits of an embedded peer. Sizes in bytes, times in seconds."""

    connection: BambooSettings = field(default_factory=BambooSettings)
    transport: TransportSettings = field(default_factory=TransportSettings)
    tcp: TcpSettings = field(default_factory=TcpSettings)
    tls: TlsFiles = field(default_factory=TlsFiles)
    data_window_bytes: int = 524_288
    """Data of one connection that may be in flight to this side (over QUIC: the windows of `transport`)."""
    control_backlog_bytes: int = 1_048_576
    """Control messages that the other end has not read; above this the connection ends."""
    max_spool_bytes: int = 16 * 1024**3
    """Unverified parts of payloads, of all connections."""
    max_spool_bytes_per_peer: int | None = None
    """One principal's share of the spool, and so the largest payload; None: a quarter of the spool."""
    spool_timeout_s: float = 60.0
    """A connection ends if its data has waited this long for capacity in the spool or in its share."""
    spool_expires_s: int = 86_400
    """Parts of a payload are dropped if no more of it has arrived for this long."""
    busy_share: float = 0.0
    """Share of the worker's time for the data of one caller, and for one address; 0: unlimited."""
    busy_burst_s: float = 1.0
    """Burst of that time."""
    progress_timeout_s: float = 20.0
    """A sender of a log is replaced if it sends nothing for this long while another peer has more."""
    refresh_s: float = 0.5
    """Interval of the check whether another process has changed the folder."""
