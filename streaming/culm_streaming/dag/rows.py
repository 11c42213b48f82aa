"""The packed form of records on their way to the state: hundreds of rows in one record.

CIDs are their bytes. `None` in a chunk or a shard means that it is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from culm_streaming.stateful.packed_rows import PackedRows


class ChunkRow(NamedTuple):
    """A chunk of a shard; without `data`, its key has no value any more."""

    shard: bytes
    offset: int
    size: int
    data: bytes | None
    partition: int
    position: int
    """Its offset in the partition: rows about one chunk apply in this order."""


Content = Sequence[Any]
"""The content that was read from a block: see `culm_streaming.dag.contents`."""


class NodeRow(NamedTuple):
    """An append, a join or a UCAN in a space."""

    space: bytes
    cid: bytes
    content: Content
    data: bytes | None
    """The block, for a record of `rejected`; it is not stored."""
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
    """The block, for a record of `rejected`; it is not stored."""
    peer: bytes | None
    source: Sequence[object]
    """Topic, partition, offset."""


class ShardRow(NamedTuple):
    """A whole shard with the links of its blocks; without them, it is no longer held."""

    shard: bytes
    links: tuple[tuple[bytes, tuple[bytes, ...] | None], ...] | None


class BlockedRow(NamedTuple):
    """A shard or a space is blocked, or no longer blocked."""

    key: bytes
    is_blocked: bool
    position: int


Ready = tuple[str, bytes, bytes | None, int | None]
"""(topic, key, value, partition) of a record to write; partition None: determined by its key."""


@dataclass(slots=True)
class ReplicaRows(PackedRows):
    """Input of the second stage."""

    nodes: list[NodeRow] = field(default_factory=list)
    publishes: list[PublishRow] = field(default_factory=list)
    shards: list[ShardRow] = field(default_factory=list)
    blocked: list[BlockedRow] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)


@dataclass(slots=True)
class ChunkRows(PackedRows):
    """Input of the first stage."""

    chunks: list[ChunkRow] = field(default_factory=list)
