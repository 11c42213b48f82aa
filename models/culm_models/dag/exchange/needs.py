"""Links that a node or UCAN depends on; an exchange requests them if they are missing."""

from __future__ import annotations

from typing import Final

from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import DagError
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.forms import ucan_from_map, ucan_from_raw
from culm_models.dag.ucan.token import Ucan

_NODE_CODECS: Final = (DAG_CBOR, RAW)
# First keys of a node's map, behind its head. They save decoding most blocks twice.
_NODE_STARTS: Final = (b"\x65prior", b"\x66change")


def may_be_node(cid: Cid) -> bool:
    """Whether a node or UCAN can have this CID."""
    return cid.codec in _NODE_CODECS and cid.version == 1 and cid.is_sha2_256


def read_block(
    cid: Cid, block: bytes, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS
) -> ReplicaNode | Ucan:
    """Decode a block as a node or UCAN, depending on its form. No signature is verified.

    Raises `DagError`.
    """
    if cid.codec == RAW:
        return ucan_from_raw(block, legacy=legacy, bounds=bounds)
    if block[1:].startswith(_NODE_STARTS) or len(block) > bounds.node:
        return decode_node(block, legacy=legacy, bounds=bounds)
    value = decode_dag_cbor(block)
    if isinstance(value, dict) and "change" not in value:
        return ucan_from_map(value, block, legacy=legacy, bounds=bounds)
    return decode_node(block, legacy=legacy, bounds=bounds)


def needs_of(node: ReplicaNode | Ucan) -> tuple[Cid, ...]:
    """Return the CIDs of the prior, forks, origin and proofs."""
    if isinstance(node, Ucan):
        return node.claims.proofs
    change = node.change
    if not isinstance(change, PublishChange):
        return node.parents
    # A leaf issued by the id itself needs no proof.
    claims = change.proof.claims
    proofs = () if claims.issuer == did_key(change.id) else claims.proofs
    return (*node.parents, change.origin, *proofs)


def needs_of_block(
    cid: Cid, block: bytes, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS
) -> tuple[Cid, ...]:
    """Return the CIDs that a block depends on; empty if the block is malformed."""
    try:
        return needs_of(read_block(cid, block, legacy=legacy, bounds=bounds))
    except DagError:
        return ()
