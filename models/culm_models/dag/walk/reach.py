"""Walk over all blocks below a link, each CID once, without recursion (reference 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from culm_models.dag.blocks.cid import DAG_CBOR, DAG_JSON, DAG_PB, RAW, Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.blocks.dag_json import decode_dag_json
from culm_models.dag.blocks.dag_pb import decode_dag_pb
from culm_models.dag.errors import BlockMissing, DagError

FindBlock = Callable[[Cid], bytes | memoryview | None]
"""Returns a block, or None if it is missing. Not called for identity CIDs."""
FindLinks = Callable[[Cid], Sequence[Cid] | None]
"""Returns the links of a block, or None if they cannot be read. Raises `BlockMissing`."""


def links_of(cid: Cid, data: bytes) -> list[Cid] | None:
    """Return the links of a block, in the order of its bytes (R30).

    Returns None if the codec is unknown or the block is malformed.
    """
    read = _READERS.get(cid.codec)
    if read is None:
        return None
    try:
        return read(data)
    except DagError:
        return None


def value_links(value: Any) -> Iterator[Cid]:
    """Yield the links in a value, in its order."""
    if isinstance(value, Cid):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from value_links(item)
    elif isinstance(value, list):
        for item in value:
            yield from value_links(item)


_READERS: Final[dict[int, Callable[[bytes], list[Cid]]]] = {
    RAW: lambda data: [],
    DAG_CBOR: lambda data: list(value_links(decode_dag_cbor(data))),
    DAG_JSON: lambda data: list(value_links(decode_dag_json(data))),
    DAG_PB: lambda data: [link.cid for link in decode_dag_pb(data).links],
}


def block_of(cid: Cid, find: FindBlock) -> bytes:
    """Return a block. Raises `BlockMissing`."""
    block = cid.digest if cid.is_identity else find(cid)
    if block is None:
        raise BlockMissing(f"the block {cid} is not here")
    return bytes(block)


@dataclass(slots=True)
class Reach:
    """The result of a walk."""

    have: list[Cid] = field(default_factory=list)
    """Present blocks in walk order: a block before its children, these in the order of its bytes."""
    missing: set[Cid] = field(default_factory=set)
    opaque: set[Cid] = field(default_factory=set)
    """Present blocks whose links cannot be read. They count as leaves."""


def reach(roots: Iterable[Cid], find: FindBlock) -> Reach:
    """Walk all blocks that can be reached from roots, reading the links from the blocks' bytes."""
    return reach_by_links(roots, lambda cid: links_of(cid, block_of(cid, find)))


def reach_by_links(roots: Iterable[Cid], find_links: FindLinks) -> Reach:
    """Walk all blocks that can be reached from roots, given a function that returns links."""
    reach = Reach()
    seen: set[Cid] = set()
    stack = list(roots)[::-1]
    while stack:
        cid = stack.pop()
        if cid in seen:
            continue
        seen.add(cid)
        try:
            links = find_links(cid)
        except BlockMissing:
            reach.missing.add(cid)
            continue
        reach.have.append(cid)
        if links is None:
            reach.opaque.add(cid)
        else:
            stack += reversed(links)
    return reach
