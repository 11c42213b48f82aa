"""Cutting a DAG into shards of a wanted size (R31): same input, same CIDs, everywhere.

Shards come one by one, so that none but the current one is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from culm_models.dag.blocks.cid import CAR, IDENTITY, RAW, Cid, cid_of, make_cid
from culm_models.dag.bounds import DEFAULT_BOUNDS, Bounds
from culm_models.dag.car import car_header, car_section
from culm_models.dag.errors import BlockMissing
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.walk.reach import links_of

DEFAULT_SIZE: Final = 4_194_304
LEAST_SIZE: Final = 1_024
NO_ROOT: Final = make_cid(1, RAW, IDENTITY, b"")
"""The root of a shard that has none (R4)."""
PER_APPEND_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class CutShard:
    """One CAR of a cut."""

    cid: Cid
    data: bytes = field(repr=False)


def blocks_in_order(
    root: Cid,
    find: Callable[[Cid], bytes | None],
    *,
    seen: set[Cid] | None = None,
    missing: list[Cid] | None = None,
) -> Iterator[tuple[Cid, bytes]]:
    """Depth first, a block before its children, these as their links stand in it, each CID once.

    Identity CIDs are walked through and not yielded. What is in `seen` is skipped, and what is reached is
    added to it. A block that is not here is added to `missing`; without that list, `BlockMissing` is raised.
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
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Iterator[CutShard]:
    """The CARs of a DAG, the root's first; a section larger than any CAR of this size gets one of its own.

    Raises when a block is missing, which may be after CARs before it.
    """
    return cut_blocks(root, blocks_in_order(root, find), size, bounds=bounds)


def cut_blocks(
    root: Cid,
    blocks: Iterable[tuple[Cid, bytes]],
    size: int = DEFAULT_SIZE,
    *,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Iterator[CutShard]:
    """The CARs of blocks in their order, the first of which names the root; at least one."""
    pieces = [car_header([root], bounds=bounds)]
    held = len(pieces[0])
    for cid, block in blocks:
        section = car_section(cid, block, bounds=bounds)
        if len(pieces) > 1 and held + len(section) > size:
            yield _shard(pieces)
            pieces = [car_header([NO_ROOT])]
            held = len(pieces[0])
        pieces.append(section)
        held += len(section)
    yield _shard(pieces)


def _shard(pieces: list[bytes]) -> CutShard:
    data = b"".join(pieces)
    return CutShard(cid_of(CAR, data), data)


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
