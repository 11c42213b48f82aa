"""Everything that the job knows, in memory: nodes, UCANs, shards, spaces, ids; a batch's changes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.publish.machine import PublishMachine, Taken
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.walk.shard_blocks import ShardLinks, is_opaque
from culm_models.dag.wire.messages import SPACE_SIZE
from culm_streaming.dag.contents import (
    REFUSED_UCAN,
    UCAN,
    cid_of_raw,
    is_authorised,
    is_verified,
    node_of,
    ucan_of,
)
from culm_streaming.dag.packing import refuse
from culm_streaming.dag.published import PublishedIds
from culm_streaming.dag.rows import BlockedRow, NodeRow, PublishRow, Ready, ReplicaRows, ShardRow
from culm_streaming.dag.spaces import Space
from culm_topics.dag.records import order_records

HEADS_TOPIC, ORDER_TOPIC, PUBLISHED_TOPIC = "dag.heads", "dag.order", "dag.published"


@dataclass(slots=True)
class _Changed:
    """Possible changes by a batch."""

    spaces: set[bytes] = field(default_factory=set)
    ids: set[bytes] = field(default_factory=set)
    starts: dict[bytes, int] = field(default_factory=dict)
    """By id, the first position of its order that changed."""
    nodes: set[Cid] = field(default_factory=set)
    came: set[Cid] = field(default_factory=set)
    went: set[Cid] = field(default_factory=set)
    refused: set[Cid] = field(default_factory=set)
    """Nodes that were reported as refused on arrival."""


class Replicas:
    """The state that follows from a set of records.

    `take` receives new rows and returns the records to write.
    """

    def __init__(self, settings: ValidationRules) -> None:
        self._settings = settings
        self._machine = PublishMachine(settings, keeps_all=True)
        self._published = PublishedIds(self._machine)
        self._spaces: dict[bytes, Space] = {}
        self._naming: dict[bytes, tuple[bytes, ...]] = {}
        """Spaces in which a shard is named."""
        self._receipts: set[tuple[bytes, int]] = set()
        self._aside: set[tuple[bytes, bytes]] = set()
        """By space: UCANs, and nodes that were refused on arrival."""
        self._held: dict[Cid, ShardLinks] = {}
        self._blocked: set[bytes] = set()
        self._refused = 0
        self._written: dict[tuple[str, bytes], bytes] = {}

    def take(self, rows: ReplicaRows) -> tuple[ReplicaRows, list[Ready]]:
        """Process a batch; returns its new rows, and the records that follow from them."""
        new = ReplicaRows()
        changed = _Changed()
        refused = ReplicaRows()
        for node in rows.nodes:
            self._take_node(node, new, changed, refused)
        for publish in rows.publishes:
            self._take_publish(publish, new, changed, refused)
        for shard in rows.shards:
            self._take_shard(shard, new, changed)
        for blocked in sorted(rows.blocked, key=lambda row: row.position):
            self._take_blocked(blocked, new, changed)
        self._take_falls(changed, refused)
        changed.ids |= self._published.came(changed.came | changed.nodes)
        changed.ids |= self._published.went(changed.went)
        for shard_cid in changed.came | changed.went:
            for space in self._naming.get(shard_cid.raw, ()):
                changed.spaces.add(space)
                self._weigh_in(self._spaces[space], (shard_cid,))
        return new, refused.ready + list(self._records(changed))

    # New rows.

    def _take_node(self, row: NodeRow, new: ReplicaRows, changed: _Changed, refused: ReplicaRows) -> None:
        space = self._spaces.get(row.space)
        if (space is not None and row.cid in space.nodes) or (row.space, row.cid) in self._aside:
            return
        new.nodes.append(NodeRow(row.space, row.cid, row.content, None, None, ()))
        cid = cid_of_raw(row.cid)
        try:
            if row.content[0] in (UCAN, REFUSED_UCAN):
                self._aside.add((row.space, row.cid))
                self._take_orders(self._machine.put_ucan(cid, ucan_of(cid, row.content)), changed)
                return
            # A space is reported from its first node on, even if that node is refused.
            if space is None:
                space = self._spaces[row.space] = Space()
            changed.spaces.add(row.space)
            node = self._node(cid, row)
            self._machine.store.put(node)
        except DagError as error:
            self._aside.add((row.space, row.cid))
            changed.refused.add(cid)
            refuse(refused, cid, error, data=row.data, peer=row.peer, source=row.source)
            return
        changed.nodes.add(cid)
        self._place(row.space, space, node)

    def _node(self, cid: Cid, row: NodeRow | PublishRow) -> ReplicaNode:
        node = self._machine.nodes.get(cid)
        if node is None:
            try:
                node = node_of(cid, row.content)
            except DagError as error:
                raise self._machine.refuse(cid, error) from None
        return node

    def _place(self, key: bytes, space: Space, node: ReplicaNode) -> None:
        """Add a node to a space, with the shards that it names."""
        named = space.add(node)
        for shard in named:
            naming = self._naming.get(shard.raw)
            if naming is None:
                self._naming[shard.raw] = (key,)
            elif key not in naming:
                self._naming[shard.raw] = (*naming, key)
        self._weigh_in(space, named)

    def _weigh_in(self, space: Space, shards: Iterable[Cid]) -> None:
        hashes, here = self._settings.hashes, self._machine.shards
        space.weigh(
            shards,
            is_here=lambda shard: shard.is_identity or shard in here,
            is_opaque=lambda shard: is_opaque(shard, hashes),
        )

    def _take_publish(
        self, row: PublishRow, new: ReplicaRows, changed: _Changed, refused: ReplicaRows
    ) -> None:
        if (row.cid, row.received_at) in self._receipts:
            return
        self._receipts.add((row.cid, row.received_at))
        new.publishes.append(PublishRow(row.id, row.cid, row.content, row.received_at, None, None, ()))
        cid = cid_of_raw(row.cid)
        try:
            taken = self._machine.put_node(
                self._node(cid, row),
                row.received_at,
                is_verified=is_verified(row.content),
                is_authorised=is_authorised(row.content),
            )
        except DagError as error:
            changed.refused.add(cid)
            refuse(refused, cid, error, data=row.data, peer=row.peer, source=row.source)
            return
        self._take_orders(taken, changed)
        changed.nodes.add(cid)
        if taken.is_admitted:
            # A further receipt may be valid although another one is revoked.
            changed.ids.add(row.id)

    def _take_orders(self, taken: Taken, changed: _Changed) -> None:
        for id, order in taken.orders.items():
            changed.ids.add(id)
            changed.starts[id] = min(order.start, changed.starts.get(id, order.start))
        if taken.kind == "ucan":
            # Publishes that a revocation left pending may be valid now.
            changed.ids |= self._published.with_revocations

    def _take_shard(self, row: ShardRow, new: ReplicaRows, changed: _Changed) -> None:
        new.shards.append(row)
        cid = cid_of_raw(row.shard)
        if row.links is None:
            self._held.pop(cid, None)
        else:
            self._held[cid] = ShardLinks(
                {
                    cid_of_raw(raw): None if named is None else tuple(map(cid_of_raw, named))
                    for raw, named in row.links
                }
            )
        self._weigh(cid, changed)

    def _take_blocked(self, row: BlockedRow, new: ReplicaRows, changed: _Changed) -> None:
        if row.is_blocked == (row.key in self._blocked):
            return
        new.blocked.append(row)
        if row.is_blocked:
            self._blocked.add(row.key)
        else:
            self._blocked.discard(row.key)
        if len(row.key) != SPACE_SIZE and (cid := cid_of_raw(row.key)) in self._held:
            self._weigh(cid, changed)

    def _weigh(self, cid: Cid, changed: _Changed) -> None:
        """Update whether a shard counts: while it is held and not blocked (R33)."""
        links = self._held.get(cid) if cid.raw not in self._blocked else None
        if links is not None:
            self._machine.put_shard(cid, links)
            changed.came.add(cid)
        elif cid in self._machine.shards:
            self._machine.drop_shard(cid)
            changed.went.add(cid)

    def _take_falls(self, changed: _Changed, rows: ReplicaRows) -> None:
        """Process accepted nodes that are refused since, because a node they build on has another kind."""
        refused = self._machine.refused
        if len(refused) == self._refused:
            return
        fallen = list(refused)[self._refused :]
        self._refused = len(refused)
        changed.nodes.update(fallen)
        for cid in fallen:
            if cid not in changed.refused:
                # Its bytes are in the source topic.
                refuse(rows, cid, refused[cid])
        for key, space in self._spaces.items():
            # Also spaces that only name the node: a refused node is not missing any more.
            if any(cid.raw in space.nodes or space.names(cid) for cid in fallen):
                self._rebuild(key)
                changed.spaces.add(key)

    def _rebuild(self, key: bytes) -> None:
        before = self._spaces[key]
        after = self._spaces[key] = Space()
        for node in before.nodes.values():
            if node.cid in self._machine.nodes:
                self._place(key, after, node)

    # Records to write.

    def _records(self, changed: _Changed) -> list[Ready]:
        records: list[Ready] = []
        for space in sorted(changed.spaces):
            value = self._spaces[space].record(self._machine.refused.__contains__).encode()
            if self._differs_from_written(HEADS_TOPIC, space, value):
                records.append((HEADS_TOPIC, space, value, None))
        for id, start in sorted(changed.starts.items()):
            links = self._machine.order(id).order(start)
            records += [
                (ORDER_TOPIC, id, order_record.encode(), None) for order_record in order_records(start, links)
            ]
        for id in sorted(changed.ids):
            record = self._published.record(id)
            if record is not None and self._differs_from_written(
                PUBLISHED_TOPIC, id, value := record.encode()
            ):
                records.append((PUBLISHED_TOPIC, id, value, None))
        return records

    def _differs_from_written(self, topic: str, key: bytes, value: bytes) -> bool:
        if self._written.get((topic, key)) == value:
            return False
        self._written[topic, key] = value
        return True
