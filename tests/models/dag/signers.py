"""Keys and UCANs for tests."""

from __future__ import annotations

from typing import Any

from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.replica.codec import encode_node, proof_value
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.ucan.did_key import did_key, did_text
from culm_models.dag.ucan.signing import issue_ucan
from culm_models.dag.ucan.token import Ucan
from culm_models.keys import KeyPair

SEEDS = [bytes([64 + n]) * 32 for n in range(6)]
KEYS = [KeyPair(seed).public_key for seed in SEEDS]
DIDS = [did_text(did_key(key)) for key in KEYS]
LINK, ORIGIN = cid_of(DAG_CBOR, b"link"), cid_of(DAG_CBOR, b"origin")


def ucan(issuer: int, audience: int, *capabilities: dict[str, Any], **fields: Any) -> Ucan:
    """A UCAN between two of the keys."""
    payload = {"att": list(capabilities), "aud": did_key(KEYS[audience]), "exp": None, "prf": [], **fields}
    return issue_ucan(SEEDS[issuer], payload)


def publish(
    *,
    id: int = 0,
    by: int | None = None,
    prior: Cid | None = None,
    link: Cid = LINK,
    origin: Cid = ORIGIN,
    **fields: Any,
) -> ReplicaNode:
    """A publish by the id itself, or by another key."""
    named = {"link": link, "origin": origin, **({} if prior is None else {"prior": prior})}
    proof = ucan(
        id if by is None else by, id, {"can": "dag/publish", "with": DIDS[id], "nb": named}, **fields
    )
    change = {
        "type": "publish",
        "id": KEYS[id],
        "link": link,
        "origin": origin,
        "proof": proof_value(proof),
    }
    return encode_node(change, prior)
