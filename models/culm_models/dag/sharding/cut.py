"""The blocks of a DAG in one order, cut into CARs (R31)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from culm_models.dag.blocks.cid import CAR, IDENTITY, RAW, Cid, cid_of, make_cid
from culm_models.dag.bounds import DEFAULT_BOUNDS, Bounds
from culm_models.dag.car import car_header, car_section
from culm_models.dag.errors import BlockMissing
from culm_models.dag.walk.links import links_of

DEFAULT_SIZE: Final = 4_194_304
LEAST_SIZE: Final = 1_024
NO_ROOT: Final = make_cid(1, RAW, IDENTITY, b"")
"""The root of a shard that has none (R4)."""


@dataclass(frozen=True, slots=True)
class CutShard:
    """One CAR of a cut."""

    cid: Cid
    data: bytes = field(repr=False)


def blocks_in_order(root: Cid, find: Callable[[Cid], bytes | None]) -> Iterator[tuple[Cid, bytes]]:
    """Depth first, a block before its children, these as their links stand in it, each CID once.

    Identity CIDs are walked through and not given.
    """
    seen: set[Cid] = set()
    stack = [root]
    while stack:
        cid = stack.pop()
        if cid in seen:
            continue
        seen.add(cid)
        block = cid.digest if cid.is_identity else find(cid)
        if block is None:
            raise BlockMissing(f"the block {cid} is not here")
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
    pieces = [car_header([root], bounds=bounds)]
    held = len(pieces[0])
    for cid, block in blocks_in_order(root, find):
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
