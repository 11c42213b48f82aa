"""Settings of a connector: `ConnectorLimits` are those that have the same form in the settings file."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict, Field

from culm_connectors.local_store.sizes import DEFAULT_MAP_SIZE_BYTES, MAX_SIZE_BYTES
from culm_connectors.logs.lost_entries.settings import RepairSettings
from culm_connectors.protocols import ProtocolSettings
from culm_connectors.transport import Address
from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_connectors.transport.settings import TransportSettings
from culm_connectors.transport.tcp.settings import DEFAULT_TCP, TcpSettings


class ConnectorLimits(ProtocolSettings):
    """All settings of a connector but its directory and its addresses."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow_list: Path | None = Field(
        None,
        description="a TOML or JSON file of peers and their schemas; without it every proven key comes in",
    )
    reload_interval_s: float = Field(
        1.0, gt=0, description="how often it is checked whether the allow-list's file has changed, in s"
    )
    transport: TransportSettings = Field(
        TransportSettings(datagram_bytes="auto"), description="datagrams, timeouts, limits on connections"
    )
    tcp: TcpSettings = Field(DEFAULT_TCP, description="buffers, timeouts, limits on connections over TCP")
    check_threads: int | None = Field(
        None,
        ge=1,
        description="threads that check entries; by default one less than there are cores",
    )
    verify_entries_topic: bool = Field(
        True,
        description="check signatures of what other connectors produced; "
        "false trusts everybody who may write to `entries`",
    )
    serve_before_caught_up: bool = Field(False, description="serve peers while `logs` is still being read")
    map_size_bytes: int = Field(
        DEFAULT_MAP_SIZE_BYTES,
        ge=1 << 20,
        description="the address space that the index begins with; it grows as the index does",
    )
    max_index_bytes: int = Field(
        MAX_SIZE_BYTES,
        ge=1 << 20,
        description="the largest size of the index: at it, and on a full disk, nothing more is taken",
    )
    max_bytes_per_author: int = Field(
        0,
        ge=0,
        description="size of the logs of one author; further entries from peers are refused; 0: unlimited",
    )
    max_bytes_per_peer: int = Field(
        0, ge=0, description="entries received from one peer that are still stored; 0: unlimited"
    )
    repair: RepairSettings = Field(
        RepairSettings(), description="entries that expired before they got to `logs`: produced again"
    )
    metrics_host: str = Field("127.0.0.1", description="where metrics and health are served")
    metrics_port: int | None = Field(None, ge=0, le=65_535, description="Prometheus port; 0 takes a free one")


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
    """Return host and port of `HOST:PORT` or `[IPV6]:PORT`.

    Raises `ValueError`.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535 or not host:
        raise ValueError(f"{text!r} is no address: write HOST:PORT, for example 127.0.0.1:4455")
    return host.removeprefix("[").removesuffix("]"), int(port)
