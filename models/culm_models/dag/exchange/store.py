"""Interface between a connection and the store of its end: nodes and shards that are held, and spools.

The store does not validate. Nodes and complete shards are reported as events; the driver of the connection
validates and stores them, and reports the results with `Exchange.settle`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import AckStatus


@dataclass(frozen=True, slots=True)
class Reserved:
    """Capacity is reserved for a shard from a peer."""

    bits: int
    """Chunks that this peer has sent before (`ranges.chunk_bit`); 0 if there are none.

    If all are present, the last chunk is requested again, so that the shard is reported once more.
    """


@dataclass(frozen=True, slots=True)
class NotReserved:
    """A shard is not accepted: REFUSED (with a code), HAD, or LATER (with or without a code)."""

    status: AckStatus
    code: str | None = None


class ExchangeStore(Protocol):
    """The nodes and shards that this end holds. Used by one thread. Spaces are 32 bytes.

    A *node* is the block of an append, join or publish, or of a UCAN (a map, 0x71, or a JWT's text, 0x55).
    A publish belongs to the space that is its id. Shards are found by CID in every space.
    """

    def dag_heads(self, space: bytes) -> Sequence[Cid]:
        """Return the appends and joins of a space that no other node in it builds on, ascending."""
        ...

    def publish_heads(self, space: bytes) -> Sequence[Cid]:
        """Return the publishes to the id `space` that no other publish builds on, in the order or waiting.

        UCANs of the space that no node in it depends on yet, such as a new delegation, are included. The
        result ascends.
        """
        ...

    def tip(self, space: bytes) -> Cid | None:
        """Return the last publish in the order of the id `space`, or None if there is none."""
        ...

    def missing_nodes(self, space: bytes, limit: int) -> Sequence[Cid]:
        """Return up to `limit` missing priors, forks, origins and proofs that nodes of a space name."""
        ...

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """Whether a node is held in this space or was refused permanently. Such nodes are not requested."""
        ...

    def refused_with(self, cid: Cid) -> str | None:
        """Return the code with which a node was refused permanently, or None if it was not."""
        ...

    def node(self, space: bytes, cid: Cid) -> bytes | None:
        """Return the block of a node of this space, or None if it is missing."""
        ...

    def shards(self, space: bytes) -> Iterable[tuple[Cid, int]]:
        """Return the complete shards of a space, with their sizes in bytes."""
        ...

    def has_shard(self, cid: Cid) -> bool:
        """Whether a shard is held completely."""
        ...

    def shard_size(self, space: bytes, cid: Cid) -> int | None:
        """Return the size in bytes of a complete shard that was received in this space or is named in it.

        Returns None for all other shards.
        """
        ...

    def read_shard(self, cid: Cid, offset: int, length: int) -> bytes:
        """Read bytes of a complete shard. Returns fewer if the shard has been dropped meanwhile."""
        ...

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """Reserve capacity for a whole shard that a peer is going to send (R34).

        Called before the first WANT for a shard. An existing spool of this peer is continued if the size is
        equal, and dropped otherwise.
        """
        ...

    def release(self, peer: bytes, shard: Cid) -> None:
        """End the transfer of a reserved shard. The reservation is dropped unless chunks have arrived."""
        ...

    def spool(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> bool:
        """Store a new chunk of a reserved shard. Returns False if there is no capacity for it."""
        ...
