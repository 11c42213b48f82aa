"""The walk from a link, each CID once, never by recursion (reference 3.3)."""

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
"""A block that is here, or None. Identity CIDs are never asked for."""
FindLinks = Callable[[Cid], Sequence[Cid] | None]
"""What a block that is here links to, None where nobody can say. Raises `BlockMissing`."""


def links_of(cid: Cid, data: bytes) -> list[Cid] | None:
    """The links of a block, in the order of its bytes (R30).

    None where its codec is unknown or refuses the bytes.
    """
    read = _READERS.get(cid.codec)
    if read is None:
        return None
    try:
        return read(data)
    except DagError:
        return None


def value_links(value: Any) -> Iterator[Cid]:
    """The links in a value, in its order."""
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
    """All that can be reached from roots, by the bytes of the blocks."""
    return reach_by_links(roots, lambda cid: links_of(cid, block_of(cid, find)))


def reach_by_links(roots: Iterable[Cid], find_links: FindLinks) -> Reach:
    """All that can be reached from roots, where links alone are known."""
    found = Reach()
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
            found.missing.add(cid)
            continue
        found.have.append(cid)
        if links is None:
            found.opaque.add(cid)
        else:
            stack += reversed(links)
    return found
