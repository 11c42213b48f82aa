"""Encoding of nodes (reference 3.1). Checks run in a fixed order, and the first that fails decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.fast_dag_cbor import fast_part
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import (
    BlockTooLarge,
    ChangeUnknown,
    CidVersionUnfit,
    DagError,
    ForkCodec,
    JoinEmpty,
    JoinPriorMissing,
    JoinPriorOrder,
    NodeSchema,
    OriginCodec,
    PriorCodec,
    ProofForm,
    TooManyLinks,
)
from culm_models.dag.replica.node import AppendChange, Change, JoinChange, PublishChange, ReplicaNode
from culm_models.dag.ucan.claims import check_ascending, revoked_by
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.forms import is_canonical, ucan_from_jwt, ucan_from_map
from culm_models.dag.ucan.token import Ucan

ID_SIZE: Final = 32

_PUBLISH_KEYS: Final = frozenset({"type", "id", "link", "origin", "proof"})


def decode_node(data: bytes, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS) -> ReplicaNode:
    """Decode a node. Raises the `DagError` of the first rule that it breaks."""
    if len(data) > bounds.node:
        raise BlockTooLarge(f"a node over {bounds.node} bytes")
    value = decode_dag_cbor(data)
    if not isinstance(value, dict) or not {"prior", "change"} >= value.keys() >= {"change"}:
        raise NodeSchema("a node is a map of change and perhaps prior")
    change = value["change"]
    if not isinstance(change, dict):
        raise NodeSchema("change is no map")
    prior: Cid | None = None
    if "prior" in value:
        prior = _link(value["prior"], "prior")
        _check_versions((prior,))
        _check_codecs((prior,), PriorCodec)
    return ReplicaNode(cid_of(DAG_CBOR, data), prior, _change(change, prior, data, legacy, bounds), data)


def encode_node(
    change: dict[str, Any], prior: Cid | None, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS
) -> ReplicaNode:
    """Encode a node from the map of its change. Raises `DagError` as `decode_node` does."""
    value = {"change": change} if prior is None else {"prior": prior, "change": change}
    return decode_node(encode_dag_cbor(value), legacy=legacy, bounds=bounds)


def encode_append(shards: Iterable[Cid], prior: Cid | None = None) -> ReplicaNode:
    """Encode an append of shards, which may be in any order."""
    return encode_node({"type": "append", "shards": sorted(set(shards))}, prior)


def encode_join(heads: Iterable[Cid]) -> ReplicaNode:
    """Encode the join of heads: the smallest is its prior, the others are its forks."""
    prior, *forks = sorted(set(heads))
    return encode_node({"type": "join", "forks": forks}, prior)


def proof_value(ucan: Ucan) -> Any:
    """Return a UCAN in the form that a publish carries: the map, or the text of a JWT (R23)."""
    return decode_dag_cbor(ucan.block) if ucan.cid.codec == DAG_CBOR else ucan.block.decode()


def _change(
    change: dict[str, Any], prior: Cid | None, data: bytes, legacy: bool, bounds: DagBounds
) -> Change:
    kind = change.get("type")
    if not isinstance(kind, str):
        raise NodeSchema("a change without type")
    if kind == "append":
        return _append(change, bounds)
    if kind == "join":
        return _join(change, prior, bounds)
    if kind == "publish":
        return _publish(change, data, legacy, bounds)
    raise ChangeUnknown(f"a change of the type {kind[:40]!r}")


def _append(change: dict[str, Any], bounds: DagBounds) -> AppendChange:
    shards = _links(change, "shards")
    if len(shards) > bounds.shards:
        raise TooManyLinks(f"more than {bounds.shards} shards")
    _check_versions(shards)
    check_ascending(shards)
    return AppendChange(tuple(shards))


def _join(change: dict[str, Any], prior: Cid | None, bounds: DagBounds) -> JoinChange:
    forks = _links(change, "forks")
    if len(forks) > bounds.forks:
        raise TooManyLinks(f"more than {bounds.forks} forks")
    if prior is None:
        raise JoinPriorMissing("a join without prior")
    if not forks:
        raise JoinEmpty("a join without forks")
    _check_versions(forks)
    _check_codecs(forks, ForkCodec)
    check_ascending(forks)
    if not prior < forks[0]:
        raise JoinPriorOrder("the prior is not smaller than every fork")
    return JoinChange(tuple(forks))


def _publish(change: dict[str, Any], data: bytes, legacy: bool, bounds: DagBounds) -> PublishChange:
    if not _PUBLISH_KEYS | {"shard"} >= change.keys() >= _PUBLISH_KEYS:
        raise NodeSchema("a publish with other keys than it has")
    id = change["id"]
    if not isinstance(id, bytes) or len(id) != ID_SIZE:
        raise NodeSchema(f"id is not {ID_SIZE} bytes")
    named = [change[name] for name in ("origin", "shard") if name in change]
    for link in (change["link"], *named):
        _link(link, "a link of a publish")
    proof = change["proof"]
    if not isinstance(proof, dict | str | bytes | Cid):
        raise NodeSchema("proof is neither map, text, bytes nor link")
    _check_versions(named)
    _check_codecs((change["origin"],), OriginCodec)
    ucan = _proof(proof, data, legacy, bounds)
    if ucan.claims.issuer == did_key(id):
        revoked_by(ucan.claims)
    return PublishChange(id, change["link"], change["origin"], change.get("shard"), ucan)


def _proof(proof: Any, data: bytes, legacy: bool, bounds: DagBounds) -> Ucan:
    if isinstance(proof, dict):
        block = fast_part(data, "change", "proof") or encode_dag_cbor(proof)
        return ucan_from_map(proof, block, legacy=legacy, bounds=bounds)
    if not isinstance(proof, str):
        raise ProofForm("a proof as bytes or as a link")
    ucan = ucan_from_jwt(proof, legacy=legacy, bounds=bounds)
    if is_canonical(ucan):
        raise ProofForm("a proof as text although its map expresses it")
    return ucan


def _links(change: dict[str, Any], name: str) -> list[Cid]:
    if change.keys() != {"type", name}:
        raise NodeSchema(f"a change that is not exactly type and {name}")
    links = change[name]
    if not isinstance(links, list):
        raise NodeSchema(f"{name} is no list")
    return [_link(link, name) for link in links]


def _link(value: Any, name: str) -> Cid:
    if not isinstance(value, Cid):
        raise NodeSchema(f"{name}: not a link")
    return value


def _check_versions(links: Iterable[Cid]) -> None:
    for link in links:
        if link.version != 1:
            raise CidVersionUnfit(f"{link} is no CIDv1")


def _check_codecs(links: Iterable[Cid], error: type[DagError]) -> None:
    for link in links:
        if link.codec != DAG_CBOR or not link.is_sha2_256:
            raise error(f"{link.text[:100]} is no replica")
