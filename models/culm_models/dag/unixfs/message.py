"""The message of UnixFS, which stands in the data of a dag-pb node (3.6).

Fields that are known must be well made; unknown ones are passed over, as other readers do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from culm_models.dag.blocks.dag_pb import PbNode, decode_dag_pb
from culm_models.dag.blocks.protobuf import NUMBER, OCTETS, read_fields, read_numbers
from culm_models.dag.errors import DagError, DagPbMalformed

HAMT_HASH: Final = 0x22
"""murmur3-x64-64, the one hash function of sharded directories."""
FANOUT_MAX: Final = 1_024


class NodeKind(IntEnum):
    """What a node is."""

    RAW = 0
    DIRECTORY = 1
    FILE = 2
    METADATA = 3
    SYMLINK = 4
    SHARDED_DIRECTORY = 5


@dataclass(frozen=True, slots=True)
class UnixFsNode:
    """One node of a file or a directory."""

    kind: NodeKind
    data: bytes = field(default=b"", repr=False)
    """Bytes of the file that stand in the node itself, before those of its links; the target of a symlink."""
    block_sizes: tuple[int, ...] = ()
    """How many bytes of the file are below each link."""
    fanout: int = 0
    """Of a sharded directory: how many places a shard has."""

    @property
    def size(self) -> int:
        """The bytes of a file, or of the part of it that is here and below."""
        return len(self.data) + sum(self.block_sizes)


def read_unixfs(node: PbNode) -> UnixFsNode | None:
    """What a dag-pb node is in UnixFS; None where its data is none of its messages."""
    if node.data is None:
        return None
    try:
        found = _read(node.data)
    except DagError:
        return None
    return found if _fits(found, node) else None


def symlink_target(block: bytes) -> bytes:
    """The target of the symbolic link that a block is. Raises `DagPbMalformed` if it is not one."""
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
                # Writers may pack what repeats.
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
    found = UnixFsNode(kind, inline, tuple(sizes), fanout)
    if kind == NodeKind.SHARDED_DIRECTORY:
        fits = hash_code == HAMT_HASH and 8 <= fanout <= FANOUT_MAX and not fanout & (fanout - 1)
        if not fits:
            raise DagPbMalformed("a sharded directory of another hash function or fan-out")
    elif kind in (NodeKind.FILE, NodeKind.RAW) and size is not None and size != found.size:
        raise DagPbMalformed("a file of another size than its parts")
    return found


_KINDS: Final = frozenset(NodeKind)
_WIRES: Final = {1: NUMBER, 2: OCTETS, 3: NUMBER, 5: NUMBER, 6: NUMBER}


def _fits(found: UnixFsNode, node: PbNode) -> bool:
    """Whether links and message agree."""
    if found.kind in (NodeKind.FILE, NodeKind.RAW):
        return len(found.block_sizes) == len(node.links)
    return found.kind != NodeKind.SYMLINK or not node.links
