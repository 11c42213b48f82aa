"""What became of what a folder was given, and what it says of an id."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
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
    is_placed: bool = False
    """It was here, and is in this space only now."""

    @property
    def is_new(self) -> bool:
        """Whether it was not in its space before."""
        return self.is_placed or self.status is AckStatus.DURABLE


@dataclass(slots=True)
class FolderChanges:
    """Changes of a folder in one transaction."""

    nodes: dict[bytes, list[Cid]] = field(default_factory=dict)
    """New nodes and UCANs, by space."""
    shards: dict[bytes, list[tuple[Cid, int]]] = field(default_factory=dict)
    """New shards and their sizes, by space."""
    keys: set[bytes] = field(default_factory=set)
    """What may be another one now, as `Watches` names it."""

    def __bool__(self) -> bool:
        return bool(self.keys)

    def add_block(self, space: bytes | None, block: bytes, outcome: BlockOutcome) -> None:
        """A node or UCAN came in a space."""
        is_publish = outcome.kind is BlockKind.PUBLISH
        # A publish that was here has a further receipt, and may be in the order for it.
        if not (outcome.is_new or outcome.fallen or (is_publish and outcome.status is AckStatus.HAD)):
            return
        if is_publish:
            space = decode_dag_cbor(block)["change"]["id"]
        self.keys |= {outcome.cid.raw} if space is None else {outcome.cid.raw, space}
        if outcome.is_new and space is not None:
            self.nodes.setdefault(space, []).append(outcome.cid)

    def add_shard(self, space: bytes, shard: Cid, size: int) -> None:
        """A shard is of a space that had it not."""
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
    def count(self) -> int:
        """How many publishes are in the order."""
        return len(self.order)

    @property
    def tip(self) -> OrderedPublish | None:
        """The last publish: the next one builds on it."""
        return self.order[-1] if self.order else None

    @property
    def latest_complete(self) -> OrderedPublish | None:
        """The last publish whose content is here."""
        return next((one for one in reversed(self.order) if one.state is PublishState.COMPLETE), None)


@dataclass(frozen=True, slots=True)
class Lack:
    """What is not here of what some nodes stand for (`POST /spaces/S/lack`), each list ascending."""

    nodes: tuple[Cid, ...]
    """Replica nodes and UCANs."""
    shards: tuple[Cid, ...]
    opaque_shards: tuple[Cid, ...]
    """Shards that are never opened (R5): named, whether here or not."""
