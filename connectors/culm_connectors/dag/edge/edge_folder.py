"""A folder of DAGs with Kafka behind it: data from peers is kept and put into the outbox in one transaction.

Data from topics is validated and kept like data from peers, but it does not go to the outbox and does not
count towards quotas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from culm_connectors.clock import steady_s
from culm_connectors.dag.edge.settings import EdgeQuotas
from culm_connectors.dag.edge.tables import SHARDS_TOPIC, DagEdgeTables, OutboxKind
from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.service import BlockTaken
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.node_table import block_cid
from culm_connectors.dag.store.outcomes import BlockOutcome, DagBlockKind, FolderChanges
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.dag.store.shard_table import VerifiedShard
from culm_connectors.dag.store.spools import DEPLOYMENT_PEER
from culm_connectors.dag.watches import ANYTHING
from culm_connectors.local_store.refilled_folder import begin_from, open_or_refill
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import Blocked, DagError, SpaceFull, WaitingFull
from culm_models.dag.exchange.store import NotReserved, Reserved
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import PublishChange
from culm_models.dag.wire.messages import AckStatus
from culm_topics.dag.records import PublishRecord
from culm_topics.kafka.origin import Origin

NO_SPACE: Final = bytes(32)
"""Space under which `dag.nodes` holds UCANs that came in no space and with no publish."""
_USAGES_KEPT: Final = 10_000


class EdgeFolder(DagFolder):
    """Folder of one edge; use `open_edge_folder` to create it. For one thread at a time, like `DagFolder`."""

    def __init__(
        self,
        folder: Path,
        settings: DagFolderSettings | None = None,
        quotas: EdgeQuotas | None = None,
        *,
        clock_s: Callable[[], float] = steady_s,
    ) -> None:
        """Open or create a folder; the caller creates the tables. Raises `DagFolderError`."""
        self._put_by_now: list[int] = []
        """Outbox numbers that the next commit makes durable."""
        super().__init__(folder, settings, create=True, clock_s=clock_s)
        self.quotas = quotas or EdgeQuotas()
        self.tables = DagEdgeTables(self.transaction)
        self.waiting: dict[int, float] = {}
        """Numbers of the waiting outbox items, with their start on the monotonic clock. For any thread."""
        self.is_outbox_longer = self.is_wanted_again = False
        """Whether this transaction added to the outbox; whether the topic of shards must be read again."""
        self._usages: dict[bytes, int] = {}

    def begin(self) -> None:
        """Load the outbox of an earlier process; request the shards again if the folder was damaged."""
        self.tables.create_newer_tables()
        if self._is_torn:
            self._want_shards_again()
        self.waiting = dict.fromkeys(self.tables.numbers(), time.monotonic())

    def commit(self) -> FolderChanges:
        """Commit the transaction, outbox included, and return what changed."""
        changes = super().commit()
        self._put_by_now.clear()
        return changes

    def rollback(self) -> None:
        """Roll back the transaction; what it put into the outbox no longer waits."""
        super().rollback()
        for number in self._put_by_now:
            self.waiting.pop(number, None)
        self._put_by_now.clear()
        self.is_outbox_longer = self.is_wanted_again = False
        self._usages.clear()

    # Data from peers.

    def take(
        self, space: bytes | None, blocks: Sequence[bytes], peer: bytes, received_at: int
    ) -> list[BlockTaken]:
        """Validate and keep nodes and UCANs from a peer, as `put_blocks` does. Returns one outcome for each.

        UCANs that come in no space are stored with the first publish among the blocks.
        """
        ids = [self._publish_id(block) for block in blocks]
        home = space or next((id for id in ids if id is not None), None)
        return [self._take(home, id, block, peer, received_at) for id, block in zip(ids, blocks, strict=True)]

    def _take(
        self, home: bytes | None, id: bytes | None, block: bytes, peer: bytes, received_at: int
    ) -> BlockTaken:
        cid = block_cid(block)
        space = home if id is None else id
        was_refused = self.refused_with(cid) is not None
        was_here = self._is_here(space, cid)
        if not was_refused and space is not None and self.blocked(space) is not None:
            refused = BlockOutcome(cid, None, AckStatus.REFUSED, Blocked.code)
            return BlockTaken(refused, is_news=False)
        if not was_refused and (code := self._postponing_code(space, 0 if was_here else len(block))):
            return BlockTaken(BlockOutcome(cid, None, AckStatus.LATER, code))
        was_received = received_at in self.receipts(cid)
        (outcome,) = self.put_blocks(home, [block], received_at=received_at, peer=peer)
        if outcome.status not in (AckStatus.DURABLE, AckStatus.HAD):
            return BlockTaken(outcome, is_news=not was_refused)
        if outcome.kind is DagBlockKind.PUBLISH:
            # A publish that is already in the order gets no further receipts.
            if space is not None and not was_received and received_at in self.receipts(cid):
                self._wait(OutboxKind.PUBLISH, cid, space, peer, received_at)
        elif outcome.is_new:
            self._wait(OutboxKind.NODE, cid, space or NO_SPACE, peer)
        return BlockTaken(outcome, self.tables.numbers_of(cid))

    def _publish_id(self, block: bytes) -> bytes | None:
        """Return the id of a publish, or None for any other block."""
        verdict = self.settings.verdict
        try:
            change = decode_node(block, legacy=verdict.legacy, bounds=verdict.bounds).change
        except DagError:
            return None
        return change.id if isinstance(change, PublishChange) else None

    def _postponing_code(self, space: bytes | None, size: int) -> str | None:
        """Return the code with which data of this size is put off, or None if there is capacity."""
        if len(self.waiting) >= self.quotas.max_staged_items:
            return WaitingFull.code
        if space is not None and size and self.usage(space) + size > self.quotas.max_bytes_per_space:
            return SpaceFull.code
        return None

    def _wait(self, what: OutboxKind, cid: Cid, space: bytes, peer: bytes, received_at: int = 0) -> None:
        number = self.tables.put(what, cid, space, peer, received_at)
        if number is not None:
            self.waiting[number] = time.monotonic()
            self._put_by_now.append(number)
            self.is_outbox_longer = True

    def acknowledged(self, numbers: Sequence[int]) -> list[float]:
        """Drop items that Kafka has acknowledged; returns how long each has waited, in seconds."""
        self.tables.delete(numbers)
        now_s = time.monotonic()
        return [now_s - self.waiting.pop(number, now_s) for number in numbers]

    # For connections, nothing is here until Kafka has it (R34, reference 6). Data that waits in the outbox is
    # still requested, so a peer that sends it again is answered once Kafka has it. It is served, though:
    # reading it promises nothing to anybody.

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """Return whether a node is in a space and Kafka has it."""
        return super().has_node(space, cid) and not self.tables.numbers_of(cid)

    def has_shard(self, cid: Cid) -> bool:
        """Return whether a shard is complete and Kafka has it."""
        return super().has_shard(cid) and not self.tables.numbers_of(cid)

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """Reserve space for a shard.

        Returns LATER while the shard waits for Kafka, or LATER with a code over a quota of the edge.
        """
        if peer != DEPLOYMENT_PEER and not self.has_shard(shard):
            if self.shard_path(shard) is not None:
                return NotReserved(AckStatus.LATER)
            if code := self._postponing_code(space, size):
                return NotReserved(AckStatus.LATER, code)
        return super().reserve(peer, space, shard, size)

    def accept_spool(self, peer: bytes, shard: Cid, verified: VerifiedShard | None = None) -> bool:
        """Keep a verified shard; one from a peer goes to the outbox. Returns whether it was kept."""
        self.transaction()
        is_kept = super().accept_spool(peer, shard, verified)
        if is_kept and peer != DEPLOYMENT_PEER:
            for space in self.tables.spaces_of_shard(shard):
                self._wait(OutboxKind.SHARD, shard, space, peer)
        return is_kept

    # Data from topics. A `DagError` describes what is wrong with a record.

    def follow_node(self, space: bytes, block: bytes) -> None:
        """Apply a node or UCAN of `dag.nodes`."""
        home = None if space == NO_SPACE else space
        self.put_blocks(home, [block], received_at=0)

    def follow_publish(self, id: bytes, record: PublishRecord) -> None:
        """Apply a publish of `dag.publishes`, which is validated at the time of its receipt (R24)."""
        self.put_blocks(id, [record.data], received_at=record.received_at, recorded=True)

    def follow_chunk(self, space: bytes, shard: Cid, size: int, offset: int, data: bytes) -> None:
        """Apply a chunk of `dag.shards`; the last chunk completes the shard."""
        spool = self.spooled(DEPLOYMENT_PEER, shard)
        if self.shard_path(shard) is not None:
            self.place_shard(space, shard)
            return
        if spool is not None and spool[0] != size:
            self.drop_spool(DEPLOYMENT_PEER, shard)
        if isinstance(self.reserve(DEPLOYMENT_PEER, space, shard, size), NotReserved):
            self.tables.skipped(key for key in (shard.raw, space) if self.blocked(key) is not None)
            return
        self.spool(DEPLOYMENT_PEER, shard, offset, data)
        is_of_before = self.is_spool_of_before(DEPLOYMENT_PEER, shard)
        try:
            self.accept_spool(DEPLOYMENT_PEER, shard)
        except DagError:
            if not is_of_before:
                raise
            # Data that an earlier process had written to this spool was lost in a power failure.
            self._want_shards_again()

    def _want_shards_again(self) -> None:
        self.tables.want_again(SHARDS_TOPIC)
        self.is_wanted_again = True

    def _drop_damaged(self, cid: Cid) -> None:
        """Drop a damaged shard and read the topic again, which still has it."""
        self._want_shards_again()
        super()._drop_damaged(cid)

    def follow_dropped(self, shard: Cid) -> None:
        """Apply the deletion of a shard's chunk from the topic (R33): drop the shard as if it never came."""
        self.drop_spool(DEPLOYMENT_PEER, shard)
        # The topic no longer holds the whole shard, so there is nothing to read again if a block is lifted.
        self.tables.was_skipped(shard.raw)
        if self.drop_shard(shard):
            self._usages.clear()
            self.changes.keys.add(ANYTHING)

    def follow_published(self, id: bytes) -> None:
        """Apply a new order of an id from the job: wake everything that watches the id."""
        self.changes.keys.add(id)

    def follow_blocked(self, key: bytes, reason: str | None) -> None:
        """Block a shard or a space, or unblock it and read again what was skipped in the topic.

        Blocked shards that are here are dropped, as they would not have been kept if the block had come
        first: topics are read in any order. Of a blocked space, those shards are dropped that no open space
        has.
        """
        self.set_blocked(key, reason)
        if reason is not None:
            self._drop_blocked(key)
        elif self.tables.was_skipped(key):
            self._want_shards_again()
        self.changes.keys.add(ANYTHING)

    def _drop_blocked(self, key: bytes) -> None:
        shards = self.tables.blocked_shards(key)
        if self._spools.drop_under(DEPLOYMENT_PEER, key) or shards:
            # The topic may still have them, or get them again.
            self.tables.skipped([key, *self.tables.blocked_beside(key)])
        for shard in shards:
            self.drop_shard(shard)
        self._usages.clear()

    # Data from peers and from topics.

    def usage(self, space: bytes) -> int:
        """Return the size of a space's nodes, UCANs and shards here, in bytes."""
        if space not in self._usages:
            if len(self._usages) >= _USAGES_KEPT:
                self._usages.clear()
            self._usages[space] = self.tables.space_bytes(space)
        return self._usages[space]

    def _count(self, space: bytes, size: int) -> None:
        # A space that is not cached is counted when `usage` is called.
        if space in self._usages:
            self._usages[space] += size

    def put_blocks(
        self,
        space: bytes | None,
        blocks: Sequence[bytes],
        *,
        received_at: int,
        recorded: bool = False,
        peer: bytes | None = None,
    ) -> list[BlockOutcome]:
        """Validate and keep nodes and UCANs, and count their bytes to the usage of their spaces."""
        outcomes = super().put_blocks(space, blocks, received_at=received_at, recorded=recorded, peer=peer)
        for block, outcome in zip(blocks, outcomes, strict=True):
            if outcome.fallen:
                self._usages.clear()
            elif outcome.is_new and space is not None:
                id = self._publish_id(block) if outcome.kind is DagBlockKind.PUBLISH else None
                self._count(id or space, len(block))
        return outcomes

    def place_shard(self, space: bytes, cid: Cid) -> None:
        """Record that a shard came in a space, and count its bytes to the usage of the space."""
        if not self.tables.has_shard_in(space, cid):
            super().place_shard(space, cid)
            self._count(space, self._shards.size(cid) or 0)

    def _is_here(self, space: bytes | None, cid: Cid) -> bool:
        return (self.read_node(cid) if space is None else self.node(space, cid)) is not None


def open_edge_folder(
    folder: Path, origin: Origin, settings: DagFolderSettings, quotas: EdgeQuotas
) -> EdgeFolder:
    """Open the folder of an edge; damaged data is dropped and read from Kafka again.

    Raises `DagFolderError`: it belongs to other topics, or to a newer Culm.
    """

    def open_once() -> EdgeFolder:
        dags = EdgeFolder(folder, settings, quotas)
        try:
            begin_from(folder, dags.tables.topics, origin, DagFolderError, export="culm dag export")
            dags.begin()
            dags.commit()
        except BaseException:
            dags.close()
            raise
        return dags

    return open_or_refill(folder, open_once, DagFolderError)
