"""Settings and limits of an embedded peer of DAG replication."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.transport.settings import TransportSettings

ALPN: Final = "culm/dag/1"
_MIB: Final = 1_048_576


def _transport() -> TransportSettings:
    """Return transport settings with windows large enough for a few chunks in flight."""
    return TransportSettings(
        receive_window_bytes=8 * _MIB,
        stream_receive_window_bytes=4 * _MIB,
        send_bound_bytes=4 * _MIB,
        send_resume_bytes=2 * _MIB,
    )


@dataclass(frozen=True, slots=True)
class DagPeerSettings:
    """Settings of an embedded peer. Times are in seconds."""

    folder: DagFolderSettings = field(default_factory=DagFolderSettings)
    transport: TransportSettings = field(default_factory=_transport)
    takes_shards: bool = True
    """False: only nodes are requested."""
    progress_timeout_s: float = 30.0
    """A `sync` is given up if the other end owes something and sends nothing for this long."""
