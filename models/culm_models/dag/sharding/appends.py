"""The appends that name the shards of a cut (R31)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.replica.node import ReplicaNode

PER_APPEND_MAX: Final = 4_096


def appends_of(
    shards: Iterable[Cid], prior: Cid | None = None, *, per_append: int = PER_APPEND_MAX
) -> list[ReplicaNode]:
    """Appends in groups, each on the one before; the last one is the DAG's origin."""
    cids = list(dict.fromkeys(shards))
    nodes: list[ReplicaNode] = []
    for at in range(0, len(cids), per_append):
        node = encode_append(cids[at : at + per_append], prior)
        nodes.append(node)
        prior = node.cid
    return nodes
