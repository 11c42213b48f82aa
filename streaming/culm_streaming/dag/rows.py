"""The packed form of records on their way to the state: rows by the hundred in one record.

CIDs are their bytes. `None` in a chunk or a shard says that it is gone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cbor2


class ChunkRow(NamedTuple):
    """A chunk of a shard; without `data` its key has no value any more."""

    shard: bytes
    offset: int
    size: int
    data: bytes | None
    partition: int
    position: int
    """Its offset in the partition: what is said of one chunk counts in this order."""


Content = Sequence[Any]
"""What was read of a block: see `culm_streaming.dag.contents`."""


class NodeRow(NamedTuple):
    """An append, a join or a UCAN in a space."""

    space: bytes
    cid: bytes
    content: Content
    data: bytes | None
    """The block, for who refuses it; it is not kept."""
    peer: bytes | None
    source: Sequence[object]
    """Topic, partition, offset."""


class PublishRow(NamedTuple):
    """A publish at one of its times of receipt (seconds)."""

    id: bytes
    cid: bytes
    content: Content
    received_at: int
    data: bytes | None
    """As in a node."""
    peer: bytes | None
    source: Sequence[object]
    """Topic, partition, offset."""


class ShardRow(NamedTuple):
    """A shard that is here whole, with the links of its blocks; without them it is here no more."""

    shard: bytes
    links: tuple[tuple[bytes, tuple[bytes, ...] | None], ...] | None


class BlockedRow(NamedTuple):
    """A shard or a space is blocked, or is so no more."""

    key: bytes
    is_blocked: bool
    position: int


Ready = tuple[str, bytes, bytes | None, int | None]
"""(topic, key, value, partition) of a record that is ready to be written; None: where its key says."""


@dataclass(slots=True)
class ReplicaRows:
    """What the second stage is told."""

    nodes: list[NodeRow] = field(default_factory=list)
    publishes: list[PublishRow] = field(default_factory=list)
    shards: list[ShardRow] = field(default_factory=list)
    blocked: list[BlockedRow] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.publishes or self.shards or self.blocked or self.ready)


def pack_chunks(rows: Iterable[ChunkRow]) -> bytes:
    """The rows as bytes."""
    return cbor2.dumps(list(rows))


def unpack_chunks(packed: Iterable[bytes]) -> list[ChunkRow]:
    """The rows of packed records, in the order of their partitions."""
    rows = [ChunkRow(*row) for blob in packed for row in cbor2.loads(blob)]
    return sorted(rows, key=lambda row: (row.partition, row.position))


def pack_replica_rows(rows: ReplicaRows) -> bytes:
    """The rows as bytes."""
    return cbor2.dumps((rows.nodes, rows.publishes, rows.shards, rows.blocked, rows.ready))


def unpack_replica_rows(packed: Iterable[bytes]) -> ReplicaRows:
    """The rows of packed records, side by side; what is blocked in its order."""
    rows = ReplicaRows()
    for blob in packed:
        nodes, publishes, shards, blocked, ready = cbor2.loads(blob)
        rows.nodes += [NodeRow(*row) for row in nodes]
        rows.publishes += [PublishRow(*row) for row in publishes]
        rows.shards += [ShardRow(*row) for row in shards]
        rows.blocked += [BlockedRow(*row) for row in blocked]
        rows.ready += [tuple(row) for row in ready]
    rows.blocked.sort(key=lambda row: row.position)
    return rows
