"""A folder of DAGs with Kafka behind it: what peers bring is kept and put into its outbox at once.

What topics bring is judged and kept as what peers bring; it does not go to the outbox, and no quota counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from culm_connectors.clock import steady_s
from culm_connectors.dag.edge.settings import EdgeQuotas
from culm_connectors.dag.edge.tables import SHARDS_TOPIC, EdgeTables, OutboxKind
from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.room import BlockTaken
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.node_table import block_cid
from culm_connectors.dag.store.outcomes import BlockKind, BlockOutcome, FolderChanges
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
"""Under which UCANs lie in `dag.nodes` that came in no space and with no publish."""
_USAGES_KEPT: Final = 10_000


class EdgeFolder(DagFolder):
    """What one edge keeps. As its base it is for one thread at a time. `open_edge_folder` makes it."""

    def __init__(
        self,
        folder: Path,
        settings: DagFolderSettings | None = None,
        quotas: EdgeQuotas | None = None,
        *,
        clock_s: Callable[[], float] = steady_s,
    ) -> None:
        """Open a folder, or make one; making the tables is up to the caller. Error: `DagFolderError`."""
        self._put_by_now: list[int] = []
        """Numbers of the outbox that the next commit keeps."""
        super().__init__(folder, settings, create=True, clock_s=clock_s)
        self.quotas = quotas or EdgeQuotas()
        self.tables = EdgeTables(self.transaction)
        self.waiting: dict[int, float] = {}
        """What waits in the outbox, and since when by the monotonic clock. For any thread to look at."""
        self.is_outbox_longer = self.is_wanted_again = False
        """Whether a transaction put something into the outbox; whether shards are to be read again."""
        self._usages: dict[bytes, int] = {}

    def begin(self) -> None:
        """Learn what an earlier process has left in the outbox, and what of the topics it has lost."""
        self.tables.make_later_ones()
        if self._is_torn:
            self._want_shards_again()
        self.waiting = dict.fromkeys(self.tables.numbers(), time.monotonic())

    def commit(self) -> FolderChanges:
        """See `DagFolder`."""
        changes = super().commit()
        self._put_by_now.clear()
        return changes

    def rollback(self) -> None:
        """See `DagFolder`; what was put into the outbox waits no more."""
        super().rollback()
        for number in self._put_by_now:
            self.waiting.pop(number, None)
        self._put_by_now.clear()
        self.is_outbox_longer = self.is_wanted_again = False
        self._usages.clear()

    # What peers bring.

    def take(
        self, space: bytes | None, blocks: Sequence[bytes], peer: bytes, received_at: int
    ) -> list[BlockTaken]:
        """Judge and keep nodes and UCANs of a peer, as `put_blocks`; one outcome each.

        UCANs that come in no space go with the first publish beside them.
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
        if not was_refused and (later := self._no_room(space, 0 if was_here else len(block))):
            return BlockTaken(BlockOutcome(cid, None, AckStatus.LATER, later))
        was_received = received_at in self.receipts(cid)
        (outcome,) = self.put_blocks(home, [block], received_at=received_at, peer=peer)
        if outcome.status not in (AckStatus.DURABLE, AckStatus.HAD):
            return BlockTaken(outcome, is_news=not was_refused)
        if outcome.kind is BlockKind.PUBLISH:
            # One that is in the order gets no further receipts.
            if space is not None and not was_received and received_at in self.receipts(cid):
                self._wait(OutboxKind.PUBLISH, cid, space, peer, received_at)
        elif outcome.is_new:
            self._wait(OutboxKind.NODE, cid, space or NO_SPACE, peer)
        return BlockTaken(outcome, self.tables.numbers_of(cid))

    def _publish_id(self, block: bytes) -> bytes | None:
        """The id of a publish; None for what is none."""
        verdict = self.settings.verdict
        try:
            change = decode_node(block, legacy=verdict.legacy, bounds=verdict.bounds).change
        except DagError:
            return None
        return change.id if isinstance(change, PublishChange) else None

    def _no_room(self, space: bytes | None, size: int) -> str | None:
        """The code with which something of this size has to come later; None where there is room."""
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
        """Kafka has this of the outbox: for how long each has waited, in seconds."""
        self.tables.delete(numbers)
        now_s = time.monotonic()
        return [now_s - self.waiting.pop(number, now_s) for number in numbers]

    # For connections, nothing is here that Kafka has not (R34, reference 6): what waits in the outbox is
    # asked for, so whoever brings it again hears of it once Kafka has it. It is served, though: what is read
    # here is promised to nobody.

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """See `ExchangeStore`."""
        return super().has_node(space, cid) and not self.tables.numbers_of(cid)

    def has_shard(self, cid: Cid) -> bool:
        """See `ExchangeStore`."""
        return super().has_shard(cid) and not self.tables.numbers_of(cid)

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """See `DagFolder`; LATER where the shard waits for Kafka, or with a code over a quota of the edge."""
        if peer != DEPLOYMENT_PEER and not self.has_shard(shard):
            if self.shard_path(shard) is not None:
                return NotReserved(AckStatus.LATER)
            if later := self._no_room(space, size):
                return NotReserved(AckStatus.LATER, later)
        return super().reserve(peer, space, shard, size)

    def accept_spool(self, peer: bytes, shard: Cid, verified: VerifiedShard | None = None) -> bool:
        """See `DagFolder`; what a peer has brought waits in the outbox."""
        self.transaction()
        is_kept = super().accept_spool(peer, shard, verified)
        if is_kept and peer != DEPLOYMENT_PEER:
            for space in self.tables.spaces_of_shard(shard):
                self._wait(OutboxKind.SHARD, shard, space, peer)
        return is_kept

    # What topics bring. A `DagError` says what is wrong with it.

    def follow_node(self, space: bytes, block: bytes) -> None:
        """A node or UCAN of `dag.nodes`."""
        home = None if space == NO_SPACE else space
        self.put_blocks(home, [block], received_at=0)

    def follow_publish(self, id: bytes, record: PublishRecord) -> None:
        """A publish of `dag.publishes`, which is judged at the time of its receipt (R24)."""
        self.put_blocks(id, [record.data], received_at=record.received_at, recorded=True)

    def follow_chunk(self, space: bytes, shard: Cid, size: int, offset: int, data: bytes) -> None:
        """A chunk of `dag.shards`; the last one makes it a shard."""
        found = self.spooled(DEPLOYMENT_PEER, shard)
        if self.shard_path(shard) is not None:
            self.place_shard(space, shard)
            return
        if found is not None and found[0] != size:
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
            # What an earlier process had of it was lost with the power.
            self._want_shards_again()

    def _want_shards_again(self) -> None:
        self.tables.want_again(SHARDS_TOPIC)
        self.is_wanted_again = True

    def _drop_damaged(self, cid: Cid) -> None:
        """See `DagFolder`: the topic has it."""
        self._want_shards_again()
        super()._drop_damaged(cid)

    def follow_dropped(self, shard: Cid) -> None:
        """A chunk of a shard is removed from the topic: it is as one that never came (R33)."""
        self.drop_spool(DEPLOYMENT_PEER, shard)
        # As the topic has it now it is not whole: there is nothing to be read again, whatever is lifted.
        self.tables.was_skipped(shard.raw)
        if self.drop_shard(shard):
            self._usages.clear()
            self.changes.keys.add(ANYTHING)

    def follow_published(self, id: bytes) -> None:
        """The job has come to an order of an id: whoever waits for it looks again."""
        self.changes.keys.add(id)

    def follow_blocked(self, key: bytes, reason: str | None) -> None:
        """A shard or a space is blocked, or is no more: then what was left out of the topic is read.

        Shards that are here go, as they would not have been kept had this come first: topics come in any
        order. Of a space those go that no space has which is open.
        """
        self.set_blocked(key, reason)
        if reason is not None:
            self._drop_blocked(key)
        elif self.tables.was_skipped(key):
            self._want_shards_again()
        self.changes.keys.add(ANYTHING)

    def _drop_blocked(self, key: bytes) -> None:
        found = self.tables.blocked_shards(key)
        if self._spools.drop_under(DEPLOYMENT_PEER, key) or found:
            # The topic may have them, or have them again.
            self.tables.skipped([key, *self.tables.blocked_beside(key)])
        for shard in found:
            self.drop_shard(shard)
        self._usages.clear()

    # Both.

    def usage(self, space: bytes) -> int:
        """Bytes of a space that are here."""
        if space not in self._usages:
            if len(self._usages) >= _USAGES_KEPT:
                self._usages.clear()
            self._usages[space] = self.tables.space_bytes(space)
        return self._usages[space]

    def _count(self, space: bytes, size: int) -> None:
        # Who is not known is counted when somebody asks.
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
        """See `DagFolder`."""
        outcomes = super().put_blocks(space, blocks, received_at=received_at, recorded=recorded, peer=peer)
        for block, outcome in zip(blocks, outcomes, strict=True):
            if outcome.fallen:
                self._usages.clear()
            elif outcome.is_new and space is not None:
                id = self._publish_id(block) if outcome.kind is BlockKind.PUBLISH else None
                self._count(id or space, len(block))
        return outcomes

    def place_shard(self, space: bytes, cid: Cid) -> None:
        """See `DagFolder`."""
        if not self.tables.has_shard_in(space, cid):
            super().place_shard(space, cid)
            self._count(space, self._shards.size(cid) or 0)

    def _is_here(self, space: bytes | None, cid: Cid) -> bool:
        return (self.read_node(cid) if space is None else self.node(space, cid)) is not None


def open_edge_folder(
    folder: Path, origin: Origin, settings: DagFolderSettings, quotas: EdgeQuotas
) -> EdgeFolder:
    """The folder of an edge; what is damaged is dropped, to be read from Kafka.

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
