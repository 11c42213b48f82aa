"""Settings of a connector: `ConnectorLimits` are those that have the same form in the settings file."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from culm_connectors.local_store.sizes import DEFAULT_MAP_SIZE_BYTES, MAX_SIZE_BYTES
from culm_connectors.logs.lost_entries.settings import RepairSettings
from culm_connectors.protocols import ProtocolSettings
from culm_connectors.transport import Address
from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_connectors.transport.settings import TransportSettings
from culm_connectors.transport.tcp.settings import DEFAULT_TCP, TcpSettings
from culm_connectors.url import parse_url


class DrainSettings(BaseModel):
    """Settings of a drain: the end of a connector's service before a restart. Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unready_s: float = Field(
        0.0,
        ge=0,
        le=3_600,
        description="Time for which a connector that stops or drains is not ready (`/readyz` answers 503) "
        "and still accepts connections, so that load balancers first send new peers elsewhere. It should "
        "exceed the time in which they notice.",
    )
    spread_s: float = Field(
        10.0,
        ge=0,
        le=3_600,
        description="Time over which `culm connector drain` ends the open connections one after the other, "
        "so that the other connectors do not receive all peers at the same moment.",
    )


class ConnectorLimits(ProtocolSettings):
    """All settings of a connector but its directory and its addresses."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow_list: Path | None = Field(
        None,
        description="TOML or JSON file of the peers that are served and what each may read and "
        "write. Without it every peer with a proven key is served.",
        examples=["/etc/culm/peers.toml"],
    )
    reload_interval_s: float = Field(
        1.0, gt=0, description="Time between two checks of whether the file of the allow-list has changed."
    )
    transport: TransportSettings = Field(
        TransportSettings(datagram_bytes="auto"),
        description="QUIC: datagrams, timeouts, limits on connections.",
    )
    tcp: TcpSettings = Field(DEFAULT_TCP, description="TCP: buffers, timeouts, limits on connections.")
    check_threads: int | None = Field(
        None,
        ge=1,
        description="Number of threads that check entries. By default it is one less than the "
        "number of cores.",
        examples=[3],
    )
    verify_entries_topic: bool = Field(
        True,
        description="Checks signatures of entries that other connectors produced. If it is off, "
        "everybody who may write to the topic `entries` is trusted.",
    )
    serve_before_caught_up: bool = Field(
        False, description="Serves peers while the topic `logs` is still being read."
    )
    map_size_bytes: int = Field(
        DEFAULT_MAP_SIZE_BYTES,
        ge=1 << 20,
        description="Address space of the index at its creation; it grows with the index.",
    )
    max_index_bytes: int = Field(
        MAX_SIZE_BYTES,
        ge=1 << 20,
        description="Largest size of the index. At this size, and on a full disk, no more entries "
        "are accepted.",
    )
    max_bytes_per_author: int = Field(
        0,
        ge=0,
        description="Largest size of the logs of one author; further entries from peers are "
        "refused. 0 means unlimited.",
    )
    max_bytes_per_peer: int = Field(
        0,
        ge=0,
        description="Largest size of the stored entries that were received from one peer. 0 means unlimited.",
    )
    repair: RepairSettings = Field(
        RepairSettings(),
        description="Entries that expired before they reached the topic `logs` are produced again.",
    )
    drain: DrainSettings = Field(
        DrainSettings(unready_s=0.0, spread_s=10.0),
        description="The end of the service before a restart.",
    )
    metrics_host: str = Field("127.0.0.1", description="Host on which metrics and health are served.")
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description="Port of the Prometheus metrics; 0 takes a free one. By default no metrics are served.",
        examples=[9100],
    )


class ConnectorSettings(ConnectorLimits):
    """One connector process, with a section of each protocol."""

    directory: Path
    """Holds the key (created if it is missing) and the index."""
    listen: Address | None = ("127.0.0.1", 0)
    """Address of the QUIC door (UDP); None: peers are not served."""
    dial: tuple[Address, ...] = ()
    """Peers to keep a connection to."""
    listen_libp2p: Address | None = None
    """Address of the door for libp2p nodes over QUIC (UDP); None: nodes are not served."""
    dial_libp2p: tuple[Multiaddr, ...] = ()
    """Nodes to keep a connection to."""


def parse_address(text: str) -> Address:
    """Return host and port of `[quic://]HOST:PORT`; an IPv6 address stands in brackets.

    Raises `ValueError`.
    """
    return parse_url(text, schemes=("quic",), default="quic").address
