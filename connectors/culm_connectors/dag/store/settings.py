"""Rules and quotas of one folder."""

from __future__ import annotations

from dataclasses import dataclass

from culm_models.dag.verdict import DEFAULT_VERDICT, VerdictSettings

GIB = 1024**3
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class DagFolderSettings:
    """The rules are the deployment's (R28), the quotas this folder's own."""

    verdict: VerdictSettings = DEFAULT_VERDICT
    max_spool_bytes_per_peer: int = GIB
    """What one peer has brought of shards that are not whole (R34)."""
    max_spool_bytes_per_address: int = 4 * GIB
    """What all peers of one address have brought of them."""
    max_spool_bytes: int = 16 * GIB
    """What has come of all of them."""
    peer_spools: int = 4_096
    """How many spools one peer may have, however small."""
    spools: int = 65_536
    """In all."""
    max_waiting_nodes: int = 10_000
    """Places of a space for what peers bring and what waits for a prior or a proof (3.4)."""
    max_waiting_bytes: int = 64 * MIB
    """Of those nodes of a space."""
    max_waiting_nodes_per_peer: int = 1_000
    """Places of one peer, in all spaces."""
    max_waiting_nodes_per_address: int = 2_500
    """Places of all peers of one address, in all spaces."""
    waiting_expires_s: int = 3_600
    """For so long a node has a place; it is kept without one."""
    spool_expires_s: int = 86_400
    """After its last byte a spool is kept for so long."""
