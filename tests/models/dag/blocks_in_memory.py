"""Blocks in memory, as a walk or a path asks for them."""

from __future__ import annotations

from typing import Any

from culm_models.dag.blocks.cid import DAG_CBOR, DAG_PB, RAW, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.dag_pb import PbLink, PbNode, encode_dag_pb
from culm_models.dag.blocks.protobuf import write_number, write_octets


class BlocksInMemory(dict[Cid, bytes]):
    """Blocks by CID; says which ones were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Cid] = []

    def find(self, cid: Cid) -> bytes | None:
        """A block, or None."""
        self.asked.append(cid)
        return self.get(cid)

    def put(self, cid: Cid, data: bytes) -> None:
        """Keep a block."""
        self[cid] = data

    def raw(self, data: bytes) -> Cid:
        """Keep bytes as a raw block."""
        return self._kept(cid_of(RAW, data), data)

    def value(self, value: Any) -> Cid:
        """Keep a value as DAG-CBOR."""
        data = encode_dag_cbor(value)
        return self._kept(cid_of(DAG_CBOR, data), data)

    def pb(self, links: list[tuple[Cid, str | None]], data: bytes | None) -> Cid:
        """Keep a dag-pb node."""
        block = encode_dag_pb(PbNode(tuple(PbLink(cid, name) for cid, name in links), data))
        return self._kept(cid_of(DAG_PB, block), block)

    def file(self, links: list[tuple[Cid, int]], inline: bytes = b"", size: int | None = None) -> Cid:
        """Keep a node of a file."""
        message = write_number(1, 2) + (write_octets(2, inline) if inline else b"")
        if size is not None:
            message += write_number(3, size)
        message += b"".join(write_number(4, block_size) for _, block_size in links)
        return self.pb([(cid, "") for cid, _ in links], message)

    def directory(self, entries: list[tuple[Cid, str]]) -> Cid:
        """Keep a directory of one node."""
        return self.pb([(cid, name) for cid, name in entries], write_number(1, 1))

    def symlink(self, target: bytes) -> Cid:
        """Keep a symlink."""
        return self.pb([], write_number(1, 4) + write_octets(2, target))

    def _kept(self, cid: Cid, data: bytes) -> Cid:
        self[cid] = data
        return cid
