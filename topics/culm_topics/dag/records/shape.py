"""The strict door of the `dag.*` values: DAG-CBOR lists whose first item is a format number.

There is one encoding of a value, and `decode_dag_cbor` refuses every other one. Links are tag 42, as
everywhere in DAG-CBOR, so that any IPLD tool shows them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from culm_models.dag.blocks.cid import DAG_CBOR, Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.errors import DagError
from culm_topics.errors import RecordError
from culm_topics.records.shape import FORMAT, is_uint, refuse_item, require

MAX_RECORD_BYTES: Final = 1_000_000
"""Of every value of `dag.*`: with key and envelope it fits a broker that was set up for nothing larger."""
MAX_FIRST_LINKS: Final = 256
MAX_FIRST_LINK_BYTES: Final = 65_536
PEER_SIZE: Final = 32


class FirstLinks(NamedTuple):
    """How many links there are, and the first of them by text: only a record has a bound."""

    total: int
    links: tuple[Cid, ...]


NO_LINKS: Final = FirstLinks(0, ())


def first_links(links: Iterable[Cid]) -> FirstLinks:
    """The first 256 by text of any links, as far as they have 65,536 bytes together."""
    every = set(links)
    taken, size = [], 0
    for link in heapq.nsmallest(MAX_FIRST_LINKS, every):
        size += len(link.raw)
        if size > MAX_FIRST_LINK_BYTES:
            break
        taken.append(link)
    return FirstLinks(len(every), tuple(taken))


def dump_list(record: str, *items: object) -> bytes:
    """The encoding of a value of these items; `RecordError` where it would be too large, or none."""
    try:
        value = encode_dag_cbor([FORMAT, *items])
    except DagError as error:
        raise RecordError(f"{record}: {error}") from error
    require(len(value) <= MAX_RECORD_BYTES, record, f"{len(value)} bytes, at most {MAX_RECORD_BYTES}")
    return value


def load_list(value: bytes | None, record: str, length: int) -> list[Any]:
    """The items of a value behind its format number; the caller checks each. Raises `RecordError`."""
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
        found = items[0] if items and type(items[0]) is int else "none"
        raise RecordError(f"{record}: format number {found} is not known (known: {FORMAT})")
    if len(items) != length + 1:
        raise RecordError(f"{record}: {len(items)} items where {length + 1} belong")
    return items[1:]


# Each of the following checks an item that has come in, and gives it back; it raises `RecordError` for what
# the item must not be.


def uint_item(record: str, name: str, item: object) -> int:
    """An unsigned integer of 64 bits."""
    if not is_uint(item):
        refuse_item(record, name, item, "an unsigned integer of 64 bits")
    return item


def data_item(record: str, name: str, item: object, most: int) -> bytes:
    """One to so many bytes."""
    if type(item) is not bytes or not 1 <= len(item) <= most:
        refuse_item(record, name, item, f"1 to {most} bytes")
    return item


def id_item(record: str, name: str, item: object) -> bytes:
    """A space, an id or a peer: 32 bytes."""
    if type(item) is not bytes or len(item) != PEER_SIZE:
        refuse_item(record, name, item, f"{PEER_SIZE} bytes")
    return item


def optional_id_item(record: str, name: str, item: object) -> bytes | None:
    """32 bytes, or null."""
    return None if item is None else id_item(record, name, item)


def link_item(record: str, name: str, item: object) -> Cid:
    """A link, of any kind."""
    if not isinstance(item, Cid):
        refuse_item(record, name, item, "a link")
    return item


def node_item(record: str, name: str, item: object) -> Cid:
    """A link to a replica node."""
    link = link_item(record, name, item)
    if not is_node(link):
        refuse_item(record, name, item, "a link to DAG-CBOR by sha2-256")
    return link


def optional_node_item(record: str, name: str, item: object) -> Cid | None:
    """A link to a replica node, or null."""
    return None if item is None else node_item(record, name, item)


def list_item(record: str, name: str, item: object, most: int) -> list[Any]:
    """A list of at most so many items."""
    if type(item) is not list or len(item) > most:
        refuse_item(record, name, item, f"a list of at most {most}")
    return item


def first_links_item(record: str, name: str, item: object, *, nodes: bool = True) -> FirstLinks:
    """Links of which only the first are named, to replica nodes or to anything."""
    if type(item) is not list or len(item) != 2 or not is_uint(item[0]):
        refuse_item(record, name, item, "a number and links")
    total, items = item
    check = node_item if nodes else link_item
    links = tuple(check(record, name, one) for one in list_item(record, name, items, MAX_FIRST_LINKS))
    if total < len(links):
        refuse_item(record, name, item, "a number of at least the links that are named")
    if any(not low < high for low, high in pairwise(links)):
        refuse_item(record, name, item, "ascending links")
    return FirstLinks(total, links)


def is_node(cid: Cid) -> bool:
    """Whether a CID can be a replica node's."""
    return cid.version == 1 and cid.codec == DAG_CBOR and cid.is_sha2_256
