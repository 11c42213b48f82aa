"""What became of what a folder was given, and what it says of an id."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.publish.states import PublishState
from culm_models.dag.wire.messages import AckStatus


class BlockKind(StrEnum):
    """What a node is."""

    APPEND = "append"
    JOIN = "join"
    PUBLISH = "publish"
    UCAN = "ucan"


@dataclass(frozen=True, slots=True)
class RefusedBlock:
    """A block that was refused for good (R25): when it came, or when its parent did."""

    cid: Cid
    code: str


@dataclass(frozen=True, slots=True)
class BlockOutcome:
    """What became of one node or UCAN."""

    cid: Cid
    kind: BlockKind | None
    """None where the bytes are neither."""
    status: AckStatus
    """DURABLE: it is new here (durable once committed). HAD, REFUSED (with the code), LATER (no room)."""
    code: str | None = None
    missing: tuple[Cid, ...] = ()
    """Priors, forks, origin or proofs that are named and not here, ascending: what it waits for."""
    in_order: bool = False
    """Whether it is a publish in the order of its id."""
    fallen: tuple[RefusedBlock, ...] = ()
    """Nodes that came earlier and fell since this one is here."""


@dataclass(frozen=True, slots=True)
class OrderedPublish:
    """One publish in the order of its id."""

    cid: Cid
    prior: Cid | None
    link: Cid
    origin: Cid
    shard: Cid | None
    state: PublishState


@dataclass(frozen=True, slots=True)
class PublishedDag:
    """What an id has published (5.4)."""

    id: bytes
    order: tuple[OrderedPublish, ...]
    """Oldest first; the last one is the tip."""
    heads: tuple[Cid, ...]
    """Publishes in the order that no other one builds on, less the tip, ascending."""
    waiting: tuple[Cid, ...]
    """Publishes that are here and not in the order, ascending."""
    missing: frozenset[Cid] = frozenset()
    """What is not here and would change this: nodes, proofs and shards."""

    @property
    def tip(self) -> OrderedPublish | None:
        """The last publish: the next one builds on it."""
        return self.order[-1] if self.order else None

    @property
    def latest_complete(self) -> OrderedPublish | None:
        """The last publish whose content is here."""
        return next((one for one in reversed(self.order) if one.state is PublishState.COMPLETE), None)


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Where a block lies: in the file of a shard."""

    shard: Cid
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Lack:
    """What is not here of what some nodes stand for (`POST /spaces/S/lack`), each list ascending."""

    nodes: tuple[Cid, ...]
    """Replica nodes and UCANs."""
    shards: tuple[Cid, ...]
    opaque_shards: tuple[Cid, ...]
    """Shards that are never opened (R5): named, whether here or not."""
