"""Rules and quotas of one folder."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules

GIB: Final = 1024**3
MIB: Final = 1024**2


class DagFolderQuotas(BaseModel):
    """Quotas for data from peers that is not complete (R34), or waits for something (3.4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_spool_bytes: int = Field(
        16 * GIB, ge=1, description="Size of the received parts of incomplete shards."
    )
    max_spool_bytes_per_peer: int = Field(
        GIB, ge=1, description="Size of the parts of incomplete shards that were received from one peer."
    )
    max_spool_bytes_per_address: int = Field(
        4 * GIB,
        ge=1,
        description="Size of the parts of incomplete shards that were received from one address.",
    )
    spool_expires_s: int = Field(
        86_400, ge=1, description="Time after its last byte for which an incomplete shard is kept."
    )
    max_waiting_nodes: int = Field(
        10_000,
        ge=1,
        description="Number of nodes of a space that may wait for a prior node or a proof; more "
        "nodes are accepted later.",
    )
    max_waiting_bytes: int = Field(
        64 * MIB, ge=1, description="Size of the nodes of a space that may wait for a prior node or a proof."
    )
    max_waiting_nodes_per_peer: int = Field(
        1_000, ge=1, description="Number of waiting nodes that were received from one peer, in all spaces."
    )
    max_waiting_nodes_per_address: int = Field(
        2_500, ge=1, description="Number of waiting nodes that were received from one address, in all spaces."
    )
    waiting_expires_s: int = Field(
        3_600, ge=1, description="Time after which a waiting node does not count any more."
    )


class DagFolderSettings(DagFolderQuotas):
    """The rules are the deployment's (R28), the quotas this folder's own."""

    verdict: ValidationRules = DEFAULT_RULES
    peer_spools: int = Field(4_096, ge=1, description="Largest number of spools of one peer.")
    spools: int = Field(65_536, ge=1, description="Largest number of spools of all peers.")
