"""Writing sharded directories (HAMT, 3.6): names spread over nodes by their hashes, as other tools do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import mmh3

from culm_models.dag.blocks.dag_pb import PbLink, PbNode
from culm_models.dag.blocks.protobuf import write_number, write_octets
from culm_models.dag.errors import DirectoryTooLarge
from culm_models.dag.unixfs.message import HAMT_HASH, NodeKind

FANOUT: Final = 256
_HASH_BITS: Final = 64
_LEVEL_BITS: Final = 8

PutNode = Callable[[PbNode], PbLink]
"""Keeps a node; returns a link to it, with the bytes of all blocks below as its size."""


def write_shards(entries: Iterable[PbLink], put: PutNode) -> PbLink:
    """Write the nodes of a directory, which are a function of its entries and not of their order.

    Raises `DirectoryTooLarge` if two names have the same hash, so that no level tells them apart.
    """
    hashed = [(mmh3.hash64((link.name or "").encode(), signed=False)[0], link) for link in entries]
    return _write(hashed, _HASH_BITS - _LEVEL_BITS, put)


def _write(entries: list[tuple[int, PbLink]], shift: int, put: PutNode) -> PbLink:
    """One node and those below it; `shift` is where the bits of this level begin in a hash."""
    places: dict[int, list[tuple[int, PbLink]]] = {}
    for entry in entries:
        places.setdefault(entry[0] >> shift & FANOUT - 1, []).append(entry)
    links = []
    bits = 0
    for place in sorted(places):
        bits |= 1 << place
        first, *others = places[place]
        if not others:
            _, link = first
            links.append(PbLink(link.cid, f"{place:02X}{link.name}", link.size))
            continue
        if not shift:
            names = ", ".join(repr((link.name or "")[:40]) for _, link in places[place][:2])
            raise DirectoryTooLarge(f"a directory with names of the same hash: {names}")
        below = _write(places[place], shift - _LEVEL_BITS, put)
        links.append(PbLink(below.cid, f"{place:02X}", below.size))
    data = write_number(1, NodeKind.SHARDED_DIRECTORY)
    data += write_octets(2, bits.to_bytes((bits.bit_length() + 7) // 8, "big"))
    data += write_number(5, HAMT_HASH) + write_number(6, FANOUT)
    return put(PbNode(tuple(links), data))
