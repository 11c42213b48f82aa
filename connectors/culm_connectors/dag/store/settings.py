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
    peer_spool_bytes: int = GIB
    """Announced sizes of the spools of one peer (R34)."""
    spool_bytes: int = 16 * GIB
    """Announced sizes of all spools."""
    peer_spools: int = 4_096
    """How many spools one peer may have, however small."""
    spools: int = 65_536
    """In all."""
    waiting_nodes: int = 10_000
    """Of a space, that wait for a prior or a proof (3.4): what peers bring beyond it comes later."""
    waiting_bytes: int = 64 * MIB
    """Of those nodes of a space."""
    peer_waiting_nodes: int = 1_000
    """That one peer has brought, in all spaces."""
    spool_expires_s: int = 86_400
    """After its last byte a spool is kept for so long."""
