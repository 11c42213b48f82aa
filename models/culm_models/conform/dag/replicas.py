"""Operations on replica nodes and stores of them (reference 3.1, 3.2)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import Arguments
from culm_models.conform.dag.arguments import (
    as_block,
    as_cids,
    block_to_json,
    cid_of,
    optional_cid,
    texts,
)
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.dag.blocks.cid import DAG_CBOR, RAW
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.errors import DagError, JwtMalformed, NodeMissing, ProofForm
from culm_models.dag.replica.codec import decode_node, encode_node
from culm_models.dag.replica.node import AppendChange, JoinChange, ReplicaNode
from culm_models.dag.replica.store import ReplicaStore

_STORES: Final = MachineKind[ReplicaStore]("dag.replica")


def node_to_json(node: ReplicaNode) -> dict[str, Any]:
    """Return a node's fields as JSON."""
    shown: dict[str, Any] = {"cid": node.cid.text}
    if node.prior is not None:
        shown["prior"] = node.prior.text
    change = node.change
    if isinstance(change, AppendChange):
        return {**shown, "change": "append", "shards": [cid.text for cid in change.shards]}
    if isinstance(change, JoinChange):
        return {**shown, "change": "join", "forks": [cid.text for cid in change.forks]}
    if change.shard is not None:
        shown["shard"] = change.shard.text
    return {
        **shown,
        "change": "publish",
        "publish_id": change.id.hex(),
        "link": change.link.text,
        "origin": change.origin.text,
        "proof": block_to_json(change.proof.cid, change.proof.block),
    }


def _decode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return node_to_json(decode_node(arguments.octets("bytes")))


def _encode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    kind = arguments.text("change")
    change: dict[str, Any] = {"type": kind}
    prior = optional_cid(arguments, "prior")
    if kind == "append":
        change["shards"] = sorted(as_cids(arguments.items("shards"), "shards"))
    elif kind == "join":
        change["forks"] = sorted(as_cids(arguments.items("forks"), "forks"))
    elif kind == "publish":
        change["id"] = arguments.octets("publish_id")
        change["link"], change["origin"] = cid_of(arguments, "link"), cid_of(arguments, "origin")
        if arguments.has("shard"):
            change["shard"] = cid_of(arguments, "shard")
        change["proof"] = _proof(arguments)
    node = encode_node(change, prior)
    return {"bytes": node.data.hex(), "cid": node.cid.text}


def _proof(arguments: Arguments) -> Any:
    cid, data = as_block(arguments.raw("proof"), "proof")
    if cid.codec == DAG_CBOR:
        return decode_dag_cbor(data)
    if cid.codec != RAW:
        raise ProofForm("the proof is neither a map nor the text of a JWT")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise JwtMalformed("the proof is no text") from None


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    _STORES.put(machines, arguments, ReplicaStore())
    return {}


def refusals_to_json(refused: dict[Any, DagError]) -> list[list[str]]:
    """Return refused nodes with their codes, sorted by CID."""
    return [[cid.text, refused[cid].code] for cid in sorted(refused)]


def _add(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    store = _STORES.get(machines, arguments)
    node, fallen = store.add(arguments.octets("bytes"))
    return {
        "cid": node.cid.text,
        "missing": [] if node.is_publish else texts(store.missing_parents(node)),
        "refused": refusals_to_json({refused.cid: refused.error for refused in fallen}),
    }


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    store, root = _STORES.get(machines, arguments), optional_cid(arguments, "root")
    if root is not None and (root not in store.nodes or store.nodes[root].is_publish):
        raise NodeMissing(f"{root} is not here")
    state = store.state(None if root is None else (root,))
    return {
        "heads": texts(store.heads()),
        "missing": texts(state.missing),
        "shards": texts(state.shards),
        "refused": refusals_to_json(store.refused),
    }


def _join(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    heads = as_cids(arguments.items("heads"), "heads") if arguments.has("heads") else None
    node = _STORES.get(machines, arguments).join(heads)
    return {"bytes": node.data.hex(), "cid": node.cid.text}


OPERATIONS: Final = (
    ConformOperation(
        "replica.decode",
        "bytes",
        "cid, change, prior?; shards, or forks, or publish_id, link, origin, shard?, proof ({cid, bytes})",
        _decode,
    ),
    ConformOperation("replica.encode", "the fields of replica.decode without cid", "bytes, cid", _encode),
    ConformOperation("replica.open", "name", "", _open),
    ConformOperation(
        "replica.add", "name, bytes", "cid, missing, refused ([[cid, code]] of nodes that fell)", _add
    ),
    ConformOperation("replica.state", "name, root?", "heads, missing, shards, refused", _state),
    ConformOperation("replica.join", "name, heads? (all)", "bytes, cid", _join),
)
