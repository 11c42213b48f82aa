"""Operations on whole DAGs: walking them, and splitting them into shards (reference 3.3, 3.5)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import Arguments, as_octets
from culm_models.conform.dag.arguments import block_to_json, blocks_of, cid_of, optional_cid, texts
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.replica.store import ReplicaStore
from culm_models.dag.sharding import LEAST_SIZE, PER_APPEND_MAX, appends_of, cut_dag
from culm_models.dag.walk.reach import Reach, reach
from culm_models.dag.walk.shard_blocks import is_opaque, open_shard


def _walk(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    link, origin = optional_cid(arguments, "link"), optional_cid(arguments, "origin")
    store = ReplicaStore()
    for data in arguments.items("nodes", []):
        store.add(as_octets(data, "a node"))
    here = dict(blocks_of(arguments, "shards", []))
    missing_nodes: frozenset[Cid] = frozenset()
    named = frozenset(here)
    if origin is not None:
        state = store.state((origin,))
        named, missing_nodes = state.shards, state.missing
    opaque = {cid for cid in named if is_opaque(cid)}
    missing_shards = set()
    blocks: dict[Cid, bytes | memoryview] = {}
    for cid in sorted(named - opaque):
        data = cid.digest if cid.is_identity else here.get(cid)
        if data is None:
            missing_shards.add(cid)
        else:
            for block, content in open_shard(cid, data).blocks.items():
                blocks.setdefault(block, content)
    reached = Reach() if link is None else reach((link,), blocks.get)
    return {
        "have": texts(reached.have),
        "missing_blocks": texts(reached.missing),
        "missing_shards": texts(missing_shards),
        "missing_nodes": texts(missing_nodes),
        "opaque_blocks": texts(reached.opaque),
        "opaque_shards": texts(opaque),
        "complete": not (reached.missing or missing_shards or missing_nodes or opaque),
    }


def _shard(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    root = cid_of(arguments, "root")
    blocks = dict(blocks_of(arguments, "blocks"))
    size = arguments.integer("size", min_value=LEAST_SIZE, max_value=DEFAULT_BOUNDS.car)
    per_append = arguments.integer(
        "per_append", min_value=1, max_value=PER_APPEND_MAX, default=PER_APPEND_MAX
    )
    prior = optional_cid(arguments, "prior")
    shards = list(cut_dag(root, blocks.get, size))
    appends = appends_of((shard.cid for shard in shards), prior, per_append=per_append)
    return {
        "shards": [block_to_json(shard.cid, shard.data) for shard in shards],
        "shard": shards[0].cid.text,
        "appends": [block_to_json(node.cid, node.data) for node in appends],
    }


OPERATIONS: Final = (
    ConformOperation(
        "dag.walk",
        "link?, origin?, nodes? ([bytes]), shards? ([{cid, bytes}])",
        "have, missing_blocks, missing_shards, missing_nodes, opaque_blocks, opaque_shards, complete",
        _walk,
    ),
    ConformOperation(
        "dag.shard",
        "root, blocks, size, per_append? (4096), prior?",
        "shards ([{cid, bytes}]), shard, appends ([{cid, bytes}])",
        _shard,
    ),
)
