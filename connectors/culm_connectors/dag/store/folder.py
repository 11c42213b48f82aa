"""A folder of DAGs that survives a kill at any time: committed data is kept, incomplete writes are dropped.

Nodes, UCANs, receipts and indexes are in SQLite. A shard is the file `shards/<CID>.car`, visible once all of
it was verified. A spool is a file below `spools/`, of one peer and one shard.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from culm_connectors.clock import steady_s
from culm_connectors.dag.store.blocked import BlockedKeys
from culm_connectors.dag.store.judging import ProofJudge
from culm_connectors.dag.store.node_queries import NodeQueries
from culm_connectors.dag.store.node_table import NodeTable, Receipt
from culm_connectors.dag.store.outcomes import BlockOutcome, DagBlockKind, FolderChanges, PublishedDag
from culm_connectors.dag.store.published import PublishedReader
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.dag.store.shard_table import ShardTable, VerifiedShard, file_of, verify_shard
from culm_connectors.dag.store.spools import Spools
from culm_connectors.dag.store.tables import SPOOLS, open_database
from culm_connectors.dag.store.waiting import WaitingNodes
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import Blocked, BlockTooLarge, DagError
from culm_models.dag.exchange.ranges import Range
from culm_models.dag.exchange.store import NotReserved, Reserved
from culm_models.dag.order.total_order import TotalOrder
from culm_models.dag.wire.messages import AckStatus

_LOGGER = logging.getLogger(__name__)


class DagFolder:
    """Nodes and shards of any number of spaces; implements `ExchangeStore`. For one thread at a time.

    All changes are in one transaction until `commit`. Several processes may have one folder open.
    """

    def __init__(
        self,
        folder: Path,
        settings: DagFolderSettings | None = None,
        *,
        create: bool = False,
        clock_s: Callable[[], float] = steady_s,
    ) -> None:
        """Open a folder; with `create`, a missing folder is created. Raises `DagFolderError`.

        `Incomplete` writes of a killed process, and expired spools, are dropped.
        """
        self.folder = folder
        self.settings = settings or DagFolderSettings()
        verdict = self.settings.verdict
        with open_database(folder, create=create) as self._database:
            self._judge = ProofJudge(self._database, verdict)
            self._waiting = WaitingNodes(self._database, self.settings, clock_s)
            self._blocked = BlockedKeys(self._database)
            self._nodes = NodeTable(self._database, verdict, self._judge, self._waiting, self._blocked)
            self.queries = NodeQueries(self._database, verdict)
            """Queries about nodes; they change nothing."""
            self._shards = ShardTable(self._database, folder, verdict.hashes, self._drop_damaged)
            self._spools = Spools(self._database, folder / SPOOLS, self.settings, clock_s)
            self._published = PublishedReader(
                self._database, self._judge, self.queries, self._shards, verdict
            )
            self._orders: dict[bytes, TotalOrder] = {}
            self.changes = FolderChanges()
            self._data_version = -1
            self.transaction()
            self._is_torn = self._spools.drop_torn() | bool(self._shards.drop_torn())
            self._spools.drop_expired()
            self.commit()

    def close(self) -> None:
        """Close the folder; changes that were not committed are lost."""
        self._spools.close()
        self._shards.close()
        self._database.close()

    def commit(self) -> FolderChanges:
        """Make the changes survive a crash of this process; returns what changed."""
        if self._database.in_transaction:
            self._database.execute("COMMIT")
            self._spools.committed()
            if self._shards.to_delete:
                self.transaction()
                self._shards.committed()
                self._database.execute("COMMIT")
            self._shards.committed()
        changes, self.changes = self.changes, FolderChanges()
        return changes

    def rollback(self) -> None:
        """Discard the changes since the last `commit`."""
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        self._spools.to_delete = []
        self._shards.rolled_back()
        self._orders.clear()
        self.changes = FolderChanges()

    def transaction(self) -> sqlite3.Connection:
        """Return the database, in a transaction until `commit`. Callers may keep their own tables in it."""
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")
        return self._database

    # Nodes and UCANs.

    def put_blocks(
        self,
        space: bytes | None,
        blocks: Sequence[bytes],
        *,
        received_at: int,
        recorded: bool = False,
        peer: bytes | None = None,
    ) -> list[BlockOutcome]:
        """Validate and keep nodes and UCANs, in any order; returns an outcome for each block, in their order.

        A publish belongs to the space that is its id. Without a space, a UCAN belongs to none.

        `received_at`: time of receipt, in seconds since 1970, as recorded with a publish (R24). A publish
        that waits is validated again at each further receipt. Final refusals are remembered (R25).

        `recorded`: the receipt is already in a record, so it is kept even for a publish that is in the order.

        `peer`: the peer that sent the blocks. A block from a peer that would have to wait, and for which
        there is no capacity (3.4), gets LATER.
        """
        self.transaction()
        receipt = Receipt(received_at, recorded, peer)
        outcomes = [self._nodes.put(space, block, receipt) for block in blocks]
        for id in self._nodes.ids_changed:
            self._orders.pop(id, None)
        self._nodes.ids_changed.clear()
        for block, outcome in zip(blocks, outcomes, strict=True):
            self.changes.add_block(space, block, outcome)
        return outcomes

    def refused_with(self, cid: Cid) -> str | None:
        """Return the code with which a node or UCAN was finally refused, or None."""
        return self._judge.refused_with(cid)

    def read_node(self, cid: Cid) -> bytes | None:
        """Return the block of a node or UCAN of any space, or None."""
        return self.queries.block(cid)

    def read_ucan(self, cid: Cid) -> bytes | None:
        """Return the block of a UCAN of any space, or None."""
        return self.queries.block(cid) if self.queries.kind(cid) is DagBlockKind.UCAN else None

    def all_shards(self) -> list[Cid]:
        """Return every complete shard."""
        return self._shards.all()

    def receipts(self, cid: Cid) -> list[int]:
        """Return the times at which a publish was received, in seconds since 1970, ascending."""
        row = self._database.execute("SELECT node FROM nodes WHERE cid = ?", (cid.raw,)).fetchone()
        return [] if row is None else self._judge.receipts(row[0])

    def valid_receipts(self, cid: Cid) -> list[int]:
        """Return the receipts of a publish that are not refused for their time, by what is here now (R24).

        They are in seconds since 1970, ascending.
        """
        return self._judge.valid_receipts(cid)

    def node(self, space: bytes, cid: Cid) -> bytes | None:
        """Return the block of a node or UCAN in a space, or None."""
        return self.queries.block(cid, space)

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """Return whether a node is in a space, or was finally refused."""
        return self.queries.is_placed(space, cid) or self._judge.refused_with(cid) is not None

    def dag_heads(self, space: bytes) -> list[Cid]:
        """Return the heads of a space other than publishes and UCANs, ascending."""
        return self.queries.heads(space, publishes=False)

    def publish_heads(self, space: bytes) -> list[Cid]:
        """Return the heads of a space that are publishes or UCANs, ascending."""
        return self.queries.heads(space, publishes=True)

    def tip(self, space: bytes) -> Cid | None:
        """Return the tip of an id, or None if nothing is published."""
        self._see_other_processes()
        if space not in self._orders:
            self._orders[space] = self.queries.order(space)
        return self._orders[space].tip

    def missing_nodes(self, space: bytes, limit: int) -> list[Cid]:
        """Return up to `limit` CIDs that nodes of a space name and that are missing in it, ascending."""
        return self._waiting.missing(space, limit)

    def waiting_nodes(self, space: bytes) -> tuple[int, int]:
        """Return how many nodes of a space wait for a prior or a proof, and their bytes (3.4)."""
        return self._waiting.counts(space)

    def published(self, id: bytes) -> PublishedDag:
        """Return order, states and heads of an id."""
        self._see_other_processes()
        return self._published.read(id)

    def _see_other_processes(self) -> None:
        """Drop cached results if another process has changed the database."""
        (version,) = self._database.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self._data_version = version
            self._orders.clear()
            self._published.forget()

    # Shards.

    def add_shard(self, space: bytes, cid: Cid, data: bytes | memoryview) -> bool:
        """Verify and keep a shard that is in memory; False if it was here. Raises `DagError`."""
        with file_of(self.folder, data) as path:
            return self.add_verified(space, verify_shard(path, cid, self.settings.verdict), path)

    def add_verified(self, space: bytes | None, verified: VerifiedShard, path: Path) -> bool:
        """Rename a file of this file system that `verify_shard` has read to a shard; False if it was here.

        Without a space, the shard belongs to those spaces whose nodes name it. Raises `Blocked`.
        """
        self._blocked.require_open(space, verified.cid)
        self.transaction()
        is_new = self._shards.keep(verified, path)
        if is_new:
            self.changes.keys.add(verified.cid.raw)
        if space is not None:
            self.place_shard(space, verified.cid)
        self._spools.drop_of_shard(verified.cid)
        return is_new

    def shards(self, space: bytes) -> Iterator[tuple[Cid, int]]:
        """Return the shards of a space with their sizes in bytes, ascending by the bytes of their CIDs."""
        return self._shards.of_space(space)

    def has_shard(self, cid: Cid) -> bool:
        """Return whether a complete shard is here."""
        return self._shards.size(cid) is not None

    def shard_size(self, space: bytes, cid: Cid) -> int | None:
        """Return the size in bytes of a shard that is here and belongs to a space; otherwise None."""
        return self._shards.size(cid) if self._shards.belongs(space, cid) else None

    def shard_path(self, cid: Cid) -> Path | None:
        """Return the file of a complete shard, or None; the file never changes."""
        return self._shards.file_path(cid) if self._shards.size(cid) is not None else None

    def is_sound(self, cid: Cid) -> bool:
        """Return whether a shard is here and its file matches its hash; a damaged shard is dropped.

        It is then requested again.
        """
        return self._shards.is_sound(cid)

    def _drop_damaged(self, cid: Cid) -> None:
        """Drop a shard whose file is damaged, as if it never came."""
        is_outside = not self._database.in_transaction
        if self.drop_shard(cid):
            _LOGGER.error("the file of the shard %s is damaged: it is dropped", cid)
        if is_outside:
            self.commit()

    def read_shard(self, cid: Cid, offset: int, length: int) -> bytes:
        """Return bytes of a shard; fewer at its end, none if it is not here or is damaged."""
        return self._shards.read(cid, offset, length)

    def block_belongs(self, space: bytes, cid: Cid) -> bool:
        """Return whether a block is a node in a space, or in a shard that came in it or is named in it."""
        return self.queries.is_placed(space, cid) or self._shards.block_belongs(space, cid)

    def block(self, cid: Cid) -> bytes | None:
        """Return a block of any shard that is here, of an identity CID, or of a node; otherwise None."""
        if cid.is_identity:
            return cid.digest
        while (position := self._shards.block_place(cid)) is not None:
            data = self._shards.read(*position)
            if len(data) == position[2]:
                return data
            # That shard was damaged and has been dropped: another one may hold the block.
        return self.queries.block(cid)

    def place_shard(self, space: bytes, cid: Cid) -> None:
        """Record that a shard belongs to a further space."""
        self.transaction()
        if self._shards.place(space, cid):
            self.changes.add_shard(space, cid, self._shards.size(cid) or 0)

    def drop_shard(self, cid: Cid) -> bool:
        """Drop a shard as if it never came (R33); returns whether it was here."""
        self.transaction()
        self._published.forget()
        return self._shards.drop(cid)

    def set_blocked(self, key: bytes, reason: str | None) -> None:
        """Refuse a shard (the bytes of its CID) or a space from now on; a reason of None ends that (R33)."""
        self.transaction()
        self._blocked.set(key, reason)

    def blocked(self, key: bytes) -> str | None:
        """Return why a shard or a space is blocked, or None."""
        return self._blocked.reason(key)

    # Spools (R34).

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """Reserve capacity for a shard. Over a quota the result is LATER with the code `dag.spool_full`."""
        if self._shards.size(shard) is not None:
            return NotReserved(AckStatus.HAD)
        if size > self.settings.verdict.bounds.car:
            return NotReserved(AckStatus.REFUSED, BlockTooLarge.code)
        try:
            self._blocked.require_open(space, shard)
        except Blocked as error:
            return NotReserved(AckStatus.REFUSED, error.code)
        self.transaction()
        return self._spools.reserve(peer, space, shard, size)

    def release(self, peer: bytes, shard: Cid) -> None:
        """Drop a spool for which nothing has come."""
        self.transaction()
        self._spools.release(peer, shard)

    def spool(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> bool:
        """Keep one chunk of a spool; False if there is no capacity for it, or no spool."""
        self.transaction()
        return self._spools.write(peer, shard, offset, data)

    def spooled(self, peer: bytes, shard: Cid) -> tuple[int, tuple[Range, ...]] | None:
        """Return announced size and ranges of a spool, or None."""
        return self._spools.ranges(peer, shard)

    def whole_spool(self, peer: bytes, shard: Cid) -> Path | None:
        """Return the file of a complete spool, for `verify_shard` in another thread; otherwise None."""
        return self._spools.whole(peer, shard)

    def accept_spool(self, peer: bytes, shard: Cid, verified: VerifiedShard | None = None) -> bool:
        """Verify a complete spool (unless that was done) and make it a shard; False if it is not complete.

        Raises `DagError`, and then the spool is gone. Other peers' spools of the shard are dropped.
        """
        spool, path = self._spools.row(peer, shard), self._spools.whole(peer, shard)
        if spool is None or path is None:
            return False
        self.transaction()
        try:
            verified = verified or verify_shard(path, shard, self.settings.verdict)
            self.add_verified(spool[3], verified, path)
        except DagError:
            self._spools.drop(spool[0])
            raise
        return True

    def refuse_spool(self, peer: bytes, shard: Cid, error: DagError) -> tuple[AckStatus, str | None]:
        """Drop a spool that did not verify; returns the status and code for its peer.

        Data that an earlier process spooled may have been lost in a power failure, so it is requested again.
        """
        is_of_before = self.is_spool_of_before(peer, shard)
        self.drop_spool(peer, shard)
        return (AckStatus.LATER, None) if is_of_before else (AckStatus.REFUSED, error.code)

    def is_spool_of_before(self, peer: bytes, shard: Cid) -> bool:
        """Return whether an earlier process began a spool; some of its data may not have reached the disk."""
        return self._spools.is_of_before(peer, shard)

    def drop_spool(self, peer: bytes, shard: Cid) -> None:
        """Drop a spool."""
        self.transaction()
        self._spools.forget(peer, shard)

    def drop_expired(self) -> None:
        """Drop spools and places of waiting nodes that are older than the settings allow."""
        self.transaction()
        self._spools.drop_expired()
        self._waiting.drop_expired()
