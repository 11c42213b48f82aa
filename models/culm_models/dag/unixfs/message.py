"""The message of UnixFS in the data of a dag-pb node (3.6).

Known fields must be well-formed. Unknown fields are skipped, as in other readers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from culm_models.dag.blocks.dag_pb import PbNode, decode_dag_pb
from culm_models.dag.blocks.protobuf import NUMBER, OCTETS, read_fields, read_numbers
from culm_models.dag.errors import DagError, DagPbMalformed

HAMT_HASH: Final = 0x22
"""murmur3-x64-64, the only hash function of sharded directories."""
FANOUT_MAX: Final = 1_024


class NodeKind(IntEnum):
    """The type of a UnixFS node."""

    RAW = 0
    DIRECTORY = 1
    FILE = 2
    METADATA = 3
    SYMLINK = 4
    SHARDED_DIRECTORY = 5


@dataclass(frozen=True, slots=True)
class UnixFsNode:
    """A node of a file, directory or symbolic link."""

    kind: NodeKind
    data: bytes = field(default=b"", repr=False)
    """File content in the node itself, which precedes that of its links; the target of a symlink."""
    block_sizes: tuple[int, ...] = ()
    """Bytes of the file below each link."""
    fanout: int = 0
    """Number of places in a shard of a sharded directory; 0 for other nodes."""

    @property
    def size(self) -> int:
        """Size in bytes of a file, or of the part of it in this node and below."""
        return len(self.data) + sum(self.block_sizes)


def read_unixfs(node: PbNode) -> UnixFsNode | None:
    """Parse the UnixFS message in a dag-pb node. Returns None if there is none."""
    if node.data is None:
        return None
    try:
        message = _read(node.data)
    except DagError:
        return None
    return message if _fits(message, node) else None


def symlink_target(block: bytes) -> bytes:
    """Return the target of a symbolic link. Raises `DagPbMalformed` if the block is not a symbolic link."""
    message = read_unixfs(decode_dag_pb(block))
    if message is None or message.kind != NodeKind.SYMLINK:
        raise DagPbMalformed("not a symbolic link")
    return message.data


def _read(data: bytes) -> UnixFsNode:
    kind: NodeKind | None = None
    inline = b""
    size: int | None = None
    sizes: list[int] = []
    hash_code = fanout = 0
    for number, wire, value in read_fields(data):
        match number, wire, value:
            case 1, 0, int():
                if value not in _KINDS:
                    raise DagPbMalformed(f"a node of UnixFS of kind {value}")
                kind = NodeKind(value)
            case 2, 2, bytes():
                inline = value
            case 3, 0, int():
                size = value
            case 4, 0, int():
                sizes.append(value)
            case 4, 2, bytes():
                # Writers may pack repeated fields.
                sizes += read_numbers(value)
            case 5, 0, int():
                hash_code = value
            case 6, 0, int():
                fanout = value
            case _:
                if number in _WIRES and wire != _WIRES[number]:
                    raise DagPbMalformed(f"field {number} of another wire type")
    if kind is None:
        raise DagPbMalformed("a node of UnixFS without kind")
    message = UnixFsNode(kind, inline, tuple(sizes), fanout)
    if kind == NodeKind.SHARDED_DIRECTORY:
        fits = hash_code == HAMT_HASH and 8 <= fanout <= FANOUT_MAX and not fanout & (fanout - 1)
        if not fits:
            raise DagPbMalformed("a sharded directory of another hash function or fan-out")
    elif kind in (NodeKind.FILE, NodeKind.RAW) and size is not None and size != message.size:
        raise DagPbMalformed("a file of another size than its parts")
    return message


_KINDS: Final = frozenset(NodeKind)
_WIRES: Final = {1: NUMBER, 2: OCTETS, 3: NUMBER, 5: NUMBER, 6: NUMBER}


def _fits(message: UnixFsNode, node: PbNode) -> bool:
    """Whether the links of the node agree with the message."""
    if message.kind in (NodeKind.FILE, NodeKind.RAW):
        return len(message.block_sizes) == len(node.links)
    return message.kind != NodeKind.SYMLINK or not node.links
