"""Publishes without a right: with a stolen, a rewrapped, an expired and an empty proof."""

from __future__ import annotations

from typing import Any, Final

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.replica.codec import decode_node, encode_node, proof_value
from culm_models.dag.replica.node import PublishChange
from culm_models.dag.ucan.did_key import did_key, did_text
from culm_models.dag.ucan.forms import jwt_text
from culm_models.dag.ucan.signing import issue_ucan
from culm_models.keys import KeyPair

_ABILITY: Final = "dag/publish"
_LONG_AGO_S: Final = 60


def stolen(block: bytes, link: Cid) -> bytes:
    """Return a publish whose proof was made for another publish, with another link."""
    value = _value(block)
    value["change"]["link"] = link
    return encode_dag_cbor(value)


def rewrapped(block: bytes) -> bytes:
    """Return a publish with its proof in the other form; one authorisation would then count twice."""
    value = _value(block)
    change = decode_node(block).change
    assert isinstance(change, PublishChange), "a publish was given"
    value["change"]["proof"] = jwt_text(change.proof)
    return encode_dag_cbor(value)


def expired(key: KeyPair, link: Cid, origin: Cid, prior: Cid, now: int) -> bytes:
    """Return a publish whose authorisation expired a minute ago."""
    named = {"link": link, "origin": origin, "prior": prior}
    return _publish(key, named, {"nb": named}, now - _LONG_AGO_S)


def unnamed(key: KeyPair, link: Cid, origin: Cid, prior: Cid) -> bytes:
    """Return a publish with a proof of `key` that names nothing of what is published."""
    return _publish(key, {"link": link, "origin": origin, "prior": prior}, {}, None)


def _publish(key: KeyPair, named: dict[str, Cid], more: dict[str, Any], expires: int | None) -> bytes:
    did = did_key(key.public_key)
    capability = {"can": _ABILITY, "with": did_text(did), **more}
    proof = issue_ucan(key.private_key, {"att": [capability], "aud": did, "exp": expires, "prf": []})
    change = {
        "type": "publish",
        "id": key.public_key,
        "link": named["link"],
        "origin": named["origin"],
        "proof": proof_value(proof),
    }
    return encode_node(change, named["prior"]).data


def _value(block: bytes) -> dict[str, Any]:
    value = decode_dag_cbor(block)
    assert isinstance(value, dict), "a node is a map"
    return value
