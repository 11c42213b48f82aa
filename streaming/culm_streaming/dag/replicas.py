"""All that the job knows, in memory: nodes, UCANs, shards, spaces and ids, and what a batch has changed."""

from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import Cid, cid_from_bytes
from culm_models.dag.errors import DagError
from culm_models.dag.publish.machine import PublishMachine, Taken
from culm_models.dag.verdict import VerdictSettings
from culm_models.dag.walk.shard_blocks import ShardLinks, is_opaque
from culm_streaming.dag.packing import refuse
from culm_streaming.dag.published import PublishedIds
from culm_streaming.dag.rows import BlockedRow, NodeRow, PublishRow, Ready, ReplicaRows, ShardRow
from culm_streaming.dag.spaces import Space
from culm_topics.dag.records import order_records

HEADS_TOPIC, ORDER_TOPIC, PUBLISHED_TOPIC = "dag.heads", "dag.order", "dag.published"


@dataclass(slots=True)
class _Changed:
    """What a batch may have changed."""

    spaces: set[bytes] = field(default_factory=set)
    ids: set[bytes] = field(default_factory=set)
    starts: dict[bytes, int] = field(default_factory=dict)
    """By id, the first place of its order that is another one now."""
    nodes: set[Cid] = field(default_factory=set)
    came: set[Cid] = field(default_factory=set)
    went: set[Cid] = field(default_factory=set)


class Replicas:
    """What a set of records says. `take` is told what is new, and gives what is to be written."""

    def __init__(self, settings: VerdictSettings) -> None:
        self._settings = settings
        self._machine = PublishMachine(settings, keeps_all=True)
        self._published = PublishedIds(self._machine)
        self._spaces: dict[bytes, Space] = {}
        self._placed: dict[Cid, set[bytes]] = {}
        """Spaces of a node, also before it was refused."""
        self._naming: dict[Cid, set[bytes]] = {}
        """Spaces in which a shard is named."""
        self._receipts: set[tuple[bytes, int]] = set()
        self._ucans: set[tuple[bytes, bytes]] = set()
        self._held: dict[Cid, ShardLinks] = {}
        self._blocked: set[bytes] = set()
        self._refused = 0
        self._written: dict[tuple[str, bytes], bytes] = {}

    def take(self, rows: ReplicaRows) -> tuple[ReplicaRows, list[Ready]]:
        """Take a batch: what of it was new, and the records that it comes to."""
        new = ReplicaRows()
        changed = _Changed()
        refused = ReplicaRows()
        for node in rows.nodes:
            self._take_node(node, new, changed, refused)
        for publish in rows.publishes:
            self._take_publish(publish, new, changed, refused)
        for shard in rows.shards:
            self._take_shard(shard, new, changed)
        for blocked in rows.blocked:
            self._take_blocked(blocked, new, changed)
        self._take_falls(changed)
        changed.ids |= self._published.came(changed.came | changed.nodes)
        changed.ids |= self._published.went(changed.went)
        for shard_cid in changed.came | changed.went:
            changed.spaces |= self._naming.get(shard_cid, set())
        return new, refused.ready + list(self._records(changed))

    # What is new.

    def _take_node(self, row: NodeRow, new: ReplicaRows, changed: _Changed, refused: ReplicaRows) -> None:
        placed = (row.space, row.cid)
        if placed in self._ucans:
            return
        cid = cid_from_bytes(row.cid)
        if row.space in self._placed.get(cid, ()):
            return
        new.nodes.append(row)
        self._ucans.add(placed)
        try:
            taken = self._machine.add(cid, row.data, 0)
        except DagError as error:
            refuse(refused, cid, error, data=row.data, peer=row.peer, source=row.source)
            if cid in self._machine.refused:
                # A space is told of from its first node on, whatever became of it.
                self._placed.setdefault(cid, set()).add(row.space)
                self._spaces.setdefault(row.space, Space())
                changed.spaces.add(row.space)
            return
        self._take_orders(taken, changed)
        node = self._machine.nodes.get(cid)
        if node is None:
            # A UCAN, which has no part in heads.
            return
        self._ucans.discard(placed)
        self._placed.setdefault(cid, set()).add(row.space)
        changed.nodes.add(cid)
        if self._spaces.setdefault(row.space, Space()).add(node):
            changed.spaces.add(row.space)
            for shard in node.shards:
                self._naming.setdefault(shard, set()).add(row.space)

    def _take_publish(
        self, row: PublishRow, new: ReplicaRows, changed: _Changed, refused: ReplicaRows
    ) -> None:
        if (row.cid, row.received_at) in self._receipts:
            return
        self._receipts.add((row.cid, row.received_at))
        new.publishes.append(row)
        cid = cid_from_bytes(row.cid)
        try:
            taken = self._machine.add(cid, row.data, row.received_at)
        except DagError as error:
            refuse(refused, cid, error, data=row.data, peer=row.peer, source=row.source)
            return
        self._take_orders(taken, changed)
        changed.nodes.add(cid)
        if taken.is_admitted:
            # A further receipt may stand where another one is revoked.
            changed.ids.add(self._machine.publish(cid).id)

    def _take_orders(self, taken: Taken, changed: _Changed) -> None:
        for id, order in taken.orders.items():
            changed.ids.add(id)
            changed.starts[id] = min(order.start, changed.starts.get(id, order.start))
        if taken.kind == "ucan":
            # What a revocation left pending may stand now.
            changed.ids |= self._published.with_revocations

    def _take_shard(self, row: ShardRow, new: ReplicaRows, changed: _Changed) -> None:
        new.shards.append(row)
        cid = cid_from_bytes(row.shard)
        if row.links is None:
            self._held.pop(cid, None)
        else:
            self._held[cid] = ShardLinks(
                {
                    cid_from_bytes(raw): None if named is None else tuple(map(cid_from_bytes, named))
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
        for cid in [one for one in self._held if one.raw == row.key]:
            self._weigh(cid, changed)

    def _weigh(self, cid: Cid, changed: _Changed) -> None:
        """A shard counts while it is here and not blocked (R33)."""
        links = self._held.get(cid) if cid.raw not in self._blocked else None
        if links is not None:
            self._machine.put_shard(cid, links)
            changed.came.add(cid)
        elif cid in self._machine.shards:
            self._machine.drop_shard(cid)
            changed.went.add(cid)

    def _take_falls(self, changed: _Changed) -> None:
        """Nodes that were taken before, and are refused since: what they built on is of another kind."""
        refused = self._machine.refused
        if len(refused) == self._refused:
            return
        fallen = list(refused)[self._refused :]
        self._refused = len(refused)
        changed.nodes.update(fallen)
        spaces = set[bytes]().union(
            *(self._placed.get(cid, set()) for cid in fallen), *map(self._spaces_naming, fallen)
        )
        for space in spaces:
            self._rebuild(space)
        changed.spaces |= spaces

    def _spaces_naming(self, cid: Cid) -> list[bytes]:
        """Spaces in which a node is named: one that is refused is not missing any more."""
        return [key for key, space in self._spaces.items() if space.names(cid)]

    def _rebuild(self, space: bytes) -> None:
        before = self._spaces.get(space)
        if before is None:
            return
        after = self._spaces[space] = Space()
        for cid in before.nodes:
            node = self._machine.nodes.get(cid)
            if node is not None:
                after.add(node)

    # What is to be written.

    def _records(self, changed: _Changed) -> list[Ready]:
        found: list[Ready] = []
        for space in sorted(changed.spaces):
            value = self._heads(space)
            if value is not None and self._is_news(HEADS_TOPIC, space, value):
                found.append((HEADS_TOPIC, space, value, None))
        for id, start in sorted(changed.starts.items()):
            links = self._machine.order(id).order(start)
            found += [(ORDER_TOPIC, id, one.encode(), None) for one in order_records(start, links)]
        for id in sorted(changed.ids):
            record = self._published.record(id)
            if record is not None and self._is_news(PUBLISHED_TOPIC, id, value := record.encode()):
                found.append((PUBLISHED_TOPIC, id, value, None))
        return found

    def _heads(self, space: bytes) -> bytes | None:
        found = self._spaces.get(space)
        if found is None:
            return None
        hashes = self._settings.hashes
        return found.record(
            is_refused=self._machine.refused.__contains__,
            is_here=lambda shard: shard.is_identity or shard in self._machine.shards,
            is_opaque=lambda shard: is_opaque(shard, hashes),
        ).encode()

    def _is_news(self, topic: str, key: bytes, value: bytes) -> bool:
        if self._written.get((topic, key)) == value:
            return False
        self._written[topic, key] = value
        return True
