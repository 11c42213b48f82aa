"""dag-pb (reference 3.3): nodes of named links and data. Unknown fields are refused."""

from __future__ import annotations

from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import Cid, cid_from_bytes
from culm_models.dag.blocks.protobuf import NUMBER, OCTETS, read_fields, write_number, write_octets
from culm_models.dag.errors import DagError, DagPbMalformed


@dataclass(frozen=True, slots=True)
class PbLink:
    """A link. An absent name differs from an empty name."""

    cid: Cid
    name: str | None = None
    size: int | None = None
    """Tsize: the total size of all blocks below, in bytes."""


@dataclass(frozen=True, slots=True)
class PbNode:
    """A dag-pb node."""

    links: tuple[PbLink, ...]
    data: bytes | None = field(default=None, repr=False)


def decode_dag_pb(block: bytes | memoryview) -> PbNode:
    """Decode a block. Links and data may come in either order; links are contiguous, data comes at most once.

    Raises `DagPbMalformed`.
    """
    links: list[PbLink] = []
    data: bytes | None = None
    before: int | None = None
    for number, wire, value in read_fields(block):
        if wire != OCTETS or number not in (1, 2) or not isinstance(value, bytes):
            raise DagPbMalformed(f"field {number} in a node")
        if number == 1:
            if data is not None:
                raise DagPbMalformed("data twice")
            data = value
        else:
            if links and before != number:
                raise DagPbMalformed("links in two places")
            links.append(_link(value))
        before = number
    return PbNode(tuple(links), data)


def _link(data: bytes) -> PbLink:
    fields: dict[int, int | bytes] = {}
    for number, wire, value in read_fields(data):
        if wire != {1: OCTETS, 2: OCTETS, 3: NUMBER}.get(number):
            raise DagPbMalformed(f"field {number} in a link")
        if fields and number <= max(fields):
            raise DagPbMalformed("fields of a link that do not ascend")
        fields[number] = value
    raw, name, size = fields.get(1), fields.get(2), fields.get(3)
    if not isinstance(raw, bytes):
        raise DagPbMalformed("a link without hash")
    try:
        cid = cid_from_bytes(raw)
        text = name.decode() if isinstance(name, bytes) else None
    except (DagError, UnicodeDecodeError) as error:
        raise DagPbMalformed(f"a link: {error}") from None
    return PbLink(cid, text, size if isinstance(size, int) else None)


def encode_dag_pb(node: PbNode) -> bytes:
    """Encode a node: the links first, then the data."""
    out = bytearray()
    for link in node.links:
        inner = write_octets(1, link.cid.raw)
        if link.name is not None:
            inner += write_octets(2, link.name.encode())
        if link.size is not None:
            inner += write_number(3, link.size)
        out += write_octets(2, inner)
    if node.data is not None:
        out += write_octets(1, node.data)
    return bytes(out)
