"""Rules and quotas of one folder."""

from __future__ import annotations

from dataclasses import dataclass

from culm_models.dag.verdict import DEFAULT_VERDICT, VerdictSettings

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class DagFolderSettings:
    """The rules are the deployment's (R28), the quotas this folder's own."""

    verdict: VerdictSettings = DEFAULT_VERDICT
    peer_spool_bytes: int = GIB
    """Announced sizes of the spools of one peer (R34)."""
    spool_bytes: int = 16 * GIB
    """Announced sizes of all spools."""
    spool_expires_s: int = 86_400
    """After its last byte a spool is kept for so long."""
