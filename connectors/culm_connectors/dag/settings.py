"""How DAG replication is spoken by a peer, and its bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.transport.settings import TransportSettings

ALPN: Final = "culm/dag/1"
_MIB: Final = 1_048_576


def _transport() -> TransportSettings:
    """A few chunks may be on their way at once."""
    return TransportSettings(
        receive_window_bytes=8 * _MIB,
        stream_receive_window_bytes=4 * _MIB,
        send_bound_bytes=4 * _MIB,
        send_resume_bytes=2 * _MIB,
    )


@dataclass(frozen=True, slots=True)
class DagPeerSettings:
    """Of an embedded peer. Times in seconds."""

    folder: DagFolderSettings = field(default_factory=DagFolderSettings)
    transport: TransportSettings = field(default_factory=_transport)
    takes_shards: bool = True
    """False: nodes alone are asked for."""
    progress_timeout_s: float = 30.0
    """A `sync` with an end that sends nothing for this long, and owes something, is given up."""
