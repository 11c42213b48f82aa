"""What a process that keeps DAGs offers to its doors (QUIC, HTTP): the one interface between both.

A door knows who asks and what they may; the room judges, keeps and finds. What it calls durable survives the
process: in a folder once it is on the disk, at an edge once Kafka has acknowledged it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from culm_connectors.dag.store.outcomes import BlockOutcome, Lack, PublishedDag
from culm_connectors.dag.watches import Watches
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.ranges import Range
from culm_models.dag.verdict import VerdictSettings
from culm_models.dag.walk.reach import FindBlock
from culm_models.dag.wire.messages import AckStatus

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """What became of a part of a shard."""

    status: AckStatus
    """DURABLE: the shard is whole, verified and durable. HAD: it was here. NOT_HERE: parts are lacking.
    REFUSED and LATER have a code."""
    code: str | None = None
    ranges: tuple[Range, ...] = ()
    """What of the shard lies here for whoever brought the part, while it is not whole."""


@dataclass(frozen=True, slots=True)
class BlockTaken:
    """What became of a block, and what of the outbox it waits for before that may be told."""

    outcome: BlockOutcome
    waits_for: tuple[int, ...] = ()
    is_news: bool = True
    """Of what is refused: whether it was not before, so that it is told on `rejected`."""


class DagRoom(Protocol):
    """Nodes, shards and orders behind doors. For one event loop; nothing blocks it.

    `peer` is who brings or asks: 32 bytes, the proven key or a digest of what stands for one.
    """

    @property
    def verdict(self) -> VerdictSettings:
        """The deployment's rules (R28)."""
        ...

    async def receive(self, space: bytes | None, blocks: Sequence[bytes], peer: bytes) -> list[BlockOutcome]:
        """Judge and keep nodes and UCANs in any order, received now; returns once they are durable.

        One outcome each, in the order given. A publish belongs to the space that is its id.
        """
        ...

    async def spool_part(
        self, space: bytes, shard: Cid, size: int, offset: int, data: bytes, peer: bytes
    ) -> SpooledPart:
        """Keep a part of a shard, whole chunks (R27) of the one peer; the last one makes it be verified.

        Raises `ShardSizeChanged` when this peer began it with another size.
        """
        ...

    async def spooled(self, shard: Cid, peer: bytes) -> tuple[int, tuple[Range, ...]] | None:
        """Announced size and ranges of a shard that a peer has brought in part."""
        ...

    async def shard_size(self, shard: Cid) -> int | None:
        """The size of a shard that is here whole."""
        ...

    async def read_shard(self, shard: Cid, offset: int, length: int) -> bytes:
        """Bytes of a shard that is here whole; fewer where it was dropped meanwhile."""
        ...

    async def belongs(self, space: bytes, cid: Cid) -> bool:
        """Whether a block, node or shard is of a space: it came in it, or is named by its nodes."""
        ...

    async def lack(self, heads: Sequence[Cid]) -> Lack:
        """What is not here of what some nodes stand for."""
        ...

    async def reading(self, step: Callable[[FindBlock], _T], spaces: Collection[bytes] | None = None) -> _T:
        """Run a short step over the blocks that are here, away from the loop; of these spaces, or of all.

        The finder that it is given is good inside of any step, and of steps alone: so a step may begin an
        iterator that later steps advance.
        """
        ...

    async def published(self, id: bytes) -> PublishedDag:
        """Order, states and heads of an id."""
        ...

    @property
    def watches(self) -> Watches:
        """Who waits for what is published under an id."""
        ...
