"""The walk from a link, each CID once, never by recursion (reference 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import BlockMissing
from culm_models.dag.walk.links import links_of

FindBlock = Callable[[Cid], bytes | memoryview | None]
"""A block that is here, or None. Identity CIDs are never asked for."""


def block_of(cid: Cid, find: FindBlock) -> bytes:
    """A block that is needed; raises when it is not here."""
    block = cid.digest if cid.is_identity else find(cid)
    if block is None:
        raise BlockMissing(f"the block {cid} is not here")
    return bytes(block)


@dataclass(slots=True)
class Reach:
    """What a walk came to."""

    have: list[Cid] = field(default_factory=list)
    """In the order of the walk: a block before its children, these in the order of its bytes."""
    missing: set[Cid] = field(default_factory=set)
    opaque: set[Cid] = field(default_factory=set)
    """Here, but nothing below them can be seen; leaves, therefore."""


def reach(roots: Iterable[Cid], find: FindBlock) -> Reach:
    """All that can be reached from roots."""
    found = Reach()
    seen: set[Cid] = set()
    stack = list(roots)[::-1]
    while stack:
        cid = stack.pop()
        if cid in seen:
            continue
        seen.add(cid)
        block = cid.digest if cid.is_identity else find(cid)
        if block is None:
            found.missing.add(cid)
            continue
        found.have.append(cid)
        links = links_of(cid, bytes(block))
        if links is None:
            found.opaque.add(cid)
        else:
            stack += reversed(links)
    return found
