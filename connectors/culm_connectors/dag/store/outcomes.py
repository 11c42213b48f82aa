"""Results of a folder: outcomes of blocks, changes of a transaction, and the published state of an id."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.publish.states import PublishState
from culm_models.dag.wire.messages import AckStatus


class DagBlockKind(StrEnum):
    """Kind of a node."""

    APPEND = "append"
    JOIN = "join"
    PUBLISH = "publish"
    UCAN = "ucan"


@dataclass(frozen=True, slots=True)
class RefusedBlock:
    """A block that was finally refused (R25): when it came, or when its parent did."""

    cid: Cid
    code: str


@dataclass(frozen=True, slots=True)
class BlockOutcome:
    """Outcome of one node or UCAN."""

    cid: Cid
    kind: DagBlockKind | None
    """None if the bytes are neither a node nor a UCAN."""
    status: AckStatus
    """DURABLE: it is new here (durable once committed). HAD, REFUSED (with the code), LATER (no capacity)."""
    code: str | None = None
    missing: tuple[Cid, ...] = ()
    """Priors, forks, origin or proofs that are named and missing, ascending: it waits for these."""
    in_order: bool = False
    """Whether it is a publish in the order of its id."""
    fallen: tuple[RefusedBlock, ...] = ()
    """Nodes that came earlier and were refused because this one is here."""
    is_placed: bool = False
    """It was here already, and is new in this space."""

    @property
    def is_new(self) -> bool:
        """Return whether it is new in its space."""
        return self.is_placed or self.status is AckStatus.DURABLE


@dataclass(slots=True)
class FolderChanges:
    """Changes of a folder in one transaction."""

    nodes: dict[bytes, list[Cid]] = field(default_factory=dict)
    """New nodes and UCANs, by space."""
    shards: dict[bytes, list[tuple[Cid, int]]] = field(default_factory=dict)
    """New shards and their sizes in bytes, by space."""
    keys: set[bytes] = field(default_factory=set)
    """Keys that may have changed, as in `Watches`."""

    def __bool__(self) -> bool:
        return bool(self.keys)

    def add_block(self, space: bytes | None, block: bytes, outcome: BlockOutcome) -> None:
        """Add the outcome of a node or UCAN that came in a space."""
        is_publish = outcome.kind is DagBlockKind.PUBLISH
        # A publish that was here has a further receipt, and may be in the order because of it.
        if not (outcome.is_new or outcome.fallen or (is_publish and outcome.status is AckStatus.HAD)):
            return
        if is_publish:
            space = decode_dag_cbor(block)["change"]["id"]
        self.keys |= {outcome.cid.raw} if space is None else {outcome.cid.raw, space}
        if outcome.is_new and space is not None:
            self.nodes.setdefault(space, []).append(outcome.cid)

    def add_shard(self, space: bytes, shard: Cid, size: int) -> None:
        """Add a shard that is new in a space."""
        self.keys.add(shard.raw)
        self.shards.setdefault(space, []).append((shard, size))


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
    """Published state of an id (5.4)."""

    id: bytes
    order: tuple[OrderedPublish, ...]
    """Oldest first; the last one is the tip."""
    heads: tuple[Cid, ...]
    """Publishes in the order that no other one builds on, without the tip, ascending."""
    waiting: tuple[Cid, ...]
    """Publishes that are here and not in the order, ascending."""
    missing: frozenset[Cid] = frozenset()
    """Missing nodes, proofs and shards that would change this state."""

    @property
    def count(self) -> int:
        """Return the number of publishes in the order."""
        return len(self.order)

    @property
    def tip(self) -> OrderedPublish | None:
        """Return the last publish, which the next one builds on."""
        return self.order[-1] if self.order else None

    @property
    def latest_complete(self) -> OrderedPublish | None:
        """Return the last publish whose content is here."""
        return next(
            (publish for publish in reversed(self.order) if publish.state is PublishState.COMPLETE), None
        )


@dataclass(frozen=True, slots=True)
class MissingBlocks:
    """Missing nodes and shards of the states of some nodes (`POST /spaces/S/lack`), each list ascending."""

    nodes: tuple[Cid, ...]
    """Replica nodes and UCANs."""
    shards: tuple[Cid, ...]
    opaque_shards: tuple[Cid, ...]
    """Shards that are never opened (R5): all that are named, whether here or not."""
