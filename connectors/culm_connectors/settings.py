"""Settings of the edge's two processes: the connector and the reference peer."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict, Field

from culm_connectors.local_store.lmdb_file import MAX_SIZE_BYTES
from culm_connectors.logs.index.store import DEFAULT_MAP_SIZE_BYTES
from culm_connectors.protocols import ProtocolSettings
from culm_connectors.transport import Address, TransportSettings
from culm_connectors.transport.libp2p.multiaddr import Multiaddr


class ConnectorSettings(ProtocolSettings):
    """One connector process, with a section of each protocol."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    directory: Path
    """Holds the key (made when it is missing) and the index."""
    listen: Address | None = ("127.0.0.1", 0)
    """Where to serve QUIC (UDP); None serves nobody."""
    dial: tuple[Address, ...] = ()
    """Peers to keep a connection to."""
    listen_libp2p: Address | None = None
    """Where to serve nodes, over libp2p's QUIC (UDP); None serves none."""
    dial_libp2p: tuple[Multiaddr, ...] = ()
    """Nodes to keep a connection to."""
    allow_list: Path | None = None
    """A file as `access` describes it; without one every proven key may connect."""
    transport: TransportSettings = TransportSettings(datagram_bytes="auto")
    verify_entries_topic: bool = True
    """Check signatures of what other connectors produced; off trusts everyone who may write to `entries`."""
    serve_before_caught_up: bool = False
    """Serve peers while `logs` is still being read at the start."""
    map_size_bytes: int = Field(default=DEFAULT_MAP_SIZE_BYTES, ge=1 << 20)
    """The address space that the index begins with; it grows as the index does."""
    index_max_bytes: int = Field(default=MAX_SIZE_BYTES, ge=1 << 20)
    """The largest size of the index: at it, and on a full disk, nothing more is taken (`index.full`)."""
    check_threads: int | None = Field(default=None, ge=1)
    """Threads that check entries of peers and of topics; None: as many as `CheckPool` finds right."""
    author_quota_bytes: int = Field(default=0, ge=0)
    """What the logs of one author may take before peers can bring no more of it; 0: no quota."""
    peer_quota_bytes: int = Field(default=0, ge=0)
    """What one peer may bring, as long as it is held; 0: no quota."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    reload_interval_s: float = Field(default=1.0, gt=0)
    """How often the allow-list's file is looked at."""


def parse_address(text: str) -> Address:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`.

    Raises ValueError.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535 or not host:
        raise ValueError(f"{text!r} is no address: write HOST:PORT, for example 127.0.0.1:4455")
    return host.removeprefix("[").removesuffix("]"), int(port)
