"""Splitting of a DAG into shards of a given size (R31). The same input gives the same CIDs everywhere.

Shards are produced one at a time, so that only the current shard is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from culm_models.dag.blocks.cid import CAR, IDENTITY, RAW, Cid, cid_of, make_cid
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.car import car_header, car_section
from culm_models.dag.errors import BlockMissing
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.walk.reach import links_of

DEFAULT_SIZE: Final = 4_194_304
LEAST_SIZE: Final = 1_024
NO_ROOT: Final = make_cid(1, RAW, IDENTITY, b"")
"""Placeholder root of a shard that has no root (R4)."""
PER_APPEND_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class CutShard:
    """One shard of a DAG, as a CAR."""

    cid: Cid
    data: bytes = field(repr=False)


def blocks_in_order(
    root: Cid,
    find: Callable[[Cid], bytes | None],
    *,
    seen: set[Cid] | None = None,
    missing: list[Cid] | None = None,
) -> Iterator[tuple[Cid, bytes]]:
    """Yield blocks depth first: a block before its children, these in the order of the links, each CID once.

    Identity CIDs are followed, but not yielded. CIDs in `seen` are skipped, and every CID that is reached is
    added to it. A missing block is added to `missing`; without that list, `BlockMissing` is raised.
    """
    seen = set() if seen is None else seen
    stack = [root]
    while stack:
        cid = stack.pop()
        if cid in seen:
            continue
        seen.add(cid)
        block = cid.digest if cid.is_identity else find(cid)
        if block is None:
            if missing is None:
                raise BlockMissing(f"the block {cid} is not here")
            missing.append(cid)
            continue
        if not cid.is_identity:
            yield cid, block
        stack += reversed(links_of(cid, block) or [])


def cut_dag(
    root: Cid,
    find: Callable[[Cid], bytes | None],
    size: int = DEFAULT_SIZE,
    *,
    bounds: DagBounds = DEFAULT_BOUNDS,
) -> Iterator[CutShard]:
    """Yield the CARs of a DAG. The first names and contains the root.

    `size` is the maximum size of a CAR in bytes; a section that exceeds it gets a CAR of its own. Raises
    `BlockMissing`, possibly after some CARs.
    """
    return cut_blocks(root, blocks_in_order(root, find), size, bounds=bounds)


def cut_blocks(
    root: Cid,
    blocks: Iterable[tuple[Cid, bytes]],
    size: int = DEFAULT_SIZE,
    *,
    bounds: DagBounds = DEFAULT_BOUNDS,
) -> Iterator[CutShard]:
    """Yield the CARs of blocks, in the order of the blocks, at least one. The first names the root."""
    pieces = [car_header([root], bounds=bounds)]
    size_so_far = len(pieces[0])
    for cid, block in blocks:
        section = car_section(cid, block, bounds=bounds)
        if len(pieces) > 1 and size_so_far + len(section) > size:
            yield _shard(pieces)
            pieces = [car_header([NO_ROOT])]
            size_so_far = len(pieces[0])
        pieces.append(section)
        size_so_far += len(section)
    yield _shard(pieces)


def _shard(pieces: list[bytes]) -> CutShard:
    data = b"".join(pieces)
    return CutShard(cid_of(CAR, data), data)


def appends_of(
    shards: Iterable[Cid], prior: Cid | None = None, *, per_append: int = PER_APPEND_MAX
) -> list[ReplicaNode]:
    """Build a chain of appends of up to `per_append` shards each. The last one is the origin of the DAG."""
    cids = list(dict.fromkeys(shards))
    nodes: list[ReplicaNode] = []
    for at in range(0, len(cids), per_append):
        node = encode_append(cids[at : at + per_append], prior)
        nodes.append(node)
        prior = node.cid
    return nodes
