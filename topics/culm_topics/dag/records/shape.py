"""The common form of the values of `dag.*`: DAG-CBOR lists that begin with a format number, and links.

Each value has exactly one encoding, and `decode_dag_cbor` refuses every other one. Links are tag 42, as
everywhere in DAG-CBOR, so that any IPLD tool shows them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple

from culm_models.dag.blocks.cid import DAG_CBOR, Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.errors import DagError
from culm_topics.errors import RecordError
from culm_topics.records.declare import Codec
from culm_topics.records.kinds import ItemKind, called, counted, row, rule, sized_between, where
from culm_topics.records.shape import FORMAT, require

MAX_RECORD_BYTES: Final = 1_000_000
"""Limit of every value of `dag.*`: with key and envelope it fits the default limit of a broker."""
MAX_FIRST_LINKS: Final = 256
MAX_FIRST_LINK_BYTES: Final = 65_536


def is_node(cid: Cid) -> bool:
    """Whether a CID can be a replica node's."""
    return cid.version == 1 and cid.codec == DAG_CBOR and cid.is_sha2_256


_LINK: Final = ItemKind("#6.42(bstr)", "a link", "isinstance({x}, Cid)", names={"Cid": Cid}, rule="link")
Link = Annotated[Cid, _LINK]
"""A link of any kind."""
NodeLink = Annotated[Cid, _LINK, where("is_node({x})", "a link to DAG-CBOR by sha2-256", is_node=is_node)]
"""A link to a replica node."""
NodeBytes = Annotated[bytes, sized_between(1, DEFAULT_BOUNDS.node), called("bytes"), "as received"]


class FirstLinks(NamedTuple):
    """The number of links, and the first of them by text: a record has limited capacity."""

    total: int
    links: tuple[Cid, ...]


NO_LINKS: Final = FirstLinks(0, ())


def first_links(links: Iterable[Cid]) -> FirstLinks:
    """Return the number of links and the first 256 by text, up to 65,536 bytes in total."""
    every = set(links)
    taken, size = [], 0
    for link in heapq.nsmallest(MAX_FIRST_LINKS, every):
        size += len(link.raw)
        if size > MAX_FIRST_LINK_BYTES:
            break
        taken.append(link)
    return FirstLinks(len(every), tuple(taken))


def _ascend(links: Iterable[Cid]) -> bool:
    return all(low < high for low, high in pairwise(links))


def _first_links(link: Any) -> ItemKind:
    kind = row(FirstLinks, total=int, links=Annotated[tuple[link, ...], counted(MAX_FIRST_LINKS)])
    note = (
        f"The number of links, and the first of them in text order: at most {MAX_FIRST_LINKS}, of "
        f"{MAX_FIRST_LINK_BYTES:,} bytes together."
    )
    condition = "{x}[0] >= len({x}[1]) and ascend({x}[1])"
    wanted = f"a number, and at most {MAX_FIRST_LINKS} ascending links of so many"
    return rule("first-links", note)(where(condition, wanted, ascend=_ascend)(kind))


FirstOfAny = Annotated[FirstLinks, _first_links(Link)]
FirstNodes = Annotated[FirstLinks, _first_links(NodeLink)]


def _dumper(record: str) -> Callable[[Any], bytes]:
    def dump(items: tuple[object, ...]) -> bytes:
        try:
            value = encode_dag_cbor(items)
        except DagError as error:
            raise RecordError(f"{record}: {error}") from error
        require(len(value) <= MAX_RECORD_BYTES, record, f"{len(value)} bytes, at most {MAX_RECORD_BYTES}")
        return value

    return dump


def _load(value: bytes | None, record: str, length: int) -> list[Any]:
    """Return the items of a value with the format number first; the caller checks each item."""
    if value is None:
        raise RecordError(f"{record}: the record has no value")
    if len(value) > MAX_RECORD_BYTES:
        raise RecordError(f"{record}: {len(value)} bytes, at most {MAX_RECORD_BYTES}")
    try:
        items = decode_dag_cbor(value)
    except DagError as error:
        raise RecordError(f"{record}: the value is not the DAG-CBOR that was promised: {error}") from error
    if type(items) is not list:
        raise RecordError(f"{record}: the value is not a list")
    if not items or type(items[0]) is not int or items[0] != FORMAT:
        format_number = items[0] if items and type(items[0]) is int else "none"
        raise RecordError(f"{record}: format number {format_number} is not known (known: {FORMAT})")
    if len(items) != length:
        raise RecordError(f"{record}: {len(items)} items where {length} belong")
    return items


DAG_LIST: Final = Codec(_load, _dumper, is_exact=True)
"""Encoding of the values of `dag.*`."""
