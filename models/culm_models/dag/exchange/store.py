"""What a connection needs of the end that it belongs to: what is here, and where chunks go.

Verdicts do not come from here: nodes and whole shards are reported as events, whoever drives the connection
judges and keeps them, and says with `Exchange.settle` what became of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import AckStatus


@dataclass(frozen=True, slots=True)
class Reserved:
    """There is room for a shard of a peer."""

    bits: int
    """The chunks that this peer has brought before (`ranges.chunk_bit`); 0 for none. Where these are all, the
    last one is asked for again, so that the shard is reported once more."""


@dataclass(frozen=True, slots=True)
class NotReserved:
    """A shard is not taken from a peer: refused (with a code), had, or later (with or without a code)."""

    status: AckStatus
    code: str | None = None


class ExchangeStore(Protocol):
    """What is here, asked and changed by one thread. Spaces are 32 bytes.

    A *node* is the block of an append, join or publish, or of a UCAN (a map, 0x71, or a JWT's text, 0x55).
    A publish belongs to the space that is its id. Shards are found by CID in every space.
    """

    def dag_heads(self, space: bytes) -> Sequence[Cid]:
        """Appends and joins of a space that nothing else in it builds on, ascending."""
        ...

    def publish_heads(self, space: bytes) -> Sequence[Cid]:
        """Publishes to the id `space` that no other one builds on, in the order or waiting, ascending.

        Among them UCANs of the space that nothing else in it leans on yet, such as a new delegation.
        """
        ...

    def tip(self, space: bytes) -> Cid | None:
        """The last publish in the order of the id `space`."""
        ...

    def missing_nodes(self, space: bytes, most: int) -> Sequence[Cid]:
        """Priors, forks, origins and proofs that what is here of a space names, and that are not here."""
        ...

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """Whether a node is here in this space, or was refused for good: nobody is asked for it."""
        ...

    def refused_with(self, cid: Cid) -> str | None:
        """The code with which a node was refused for good."""
        ...

    def node(self, space: bytes, cid: Cid) -> bytes | None:
        """The block of a node of this space."""
        ...

    def shards(self, space: bytes) -> Iterable[tuple[Cid, int]]:
        """The shards of a space that are here whole, with their sizes."""
        ...

    def has_shard(self, cid: Cid) -> bool:
        """Whether a shard is here whole."""
        ...

    def shard_size(self, space: bytes, cid: Cid) -> int | None:
        """The size of a shard that is here whole and belongs to this space: it came in it, or it is named."""
        ...

    def read_shard(self, cid: Cid, offset: int, length: int) -> bytes:
        """Bytes of a shard that is here whole; fewer where it was dropped meanwhile."""
        ...

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """Begin to take a shard that a peer is going to send, if there is capacity for all of it (R34).

        Asked before each WANT. A spool of this peer and size that is here goes on; one of another size is
        dropped.
        """
        ...

    def release(self, peer: bytes, shard: Cid) -> None:
        """Nothing of a reserved shard is on its way any more: it is forgotten, unless some of it is here."""
        ...

    def spool(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> bool:
        """Keep one chunk of a reserved shard, which was not here; False: there is no capacity for it."""
        ...
