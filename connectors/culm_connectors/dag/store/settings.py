"""Rules and quotas of one folder."""

from __future__ import annotations

from dataclasses import dataclass

from culm_models.dag.blocks.multihash import DEFAULT_HASHES
from culm_models.dag.bounds import DEFAULT_BOUNDS, Bounds
from culm_models.dag.publish.machine import DEFAULT_POLICY
from culm_models.dag.ucan.chain import ChainPolicy

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class DagFolderSettings:
    """`chain`, `legacy`, `hashes` and `bounds` are those of the verdict settings (R28)."""

    chain: ChainPolicy = DEFAULT_POLICY
    legacy: bool = False
    hashes: frozenset[int] = DEFAULT_HASHES
    bounds: Bounds = DEFAULT_BOUNDS
    peer_spool_bytes: int = GIB
    """Announced sizes of the spools of one peer (R34)."""
    spool_bytes: int = 16 * GIB
    """Announced sizes of all spools."""
    spool_expires_s: int = 86_400
    """After its last byte a spool is kept for so long."""
