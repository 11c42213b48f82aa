"""Order and states of an id, computed from the nodes and shards that are here (R15, R32)."""

from __future__ import annotations

import mmap
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

from culm_connectors.dag.store.judging import ProofJudge
from culm_connectors.dag.store.node_queries import NodeQueries
from culm_connectors.dag.store.outcomes import OrderedPublish, PublishedDag
from culm_connectors.dag.store.shard_table import ShardTable
from culm_models.dag.blocks.cid import Cid, cid_from_bytes
from culm_models.dag.errors import DagError, UcanProofMissing
from culm_models.dag.exchange.needs import needs_of_block
from culm_models.dag.publish.states import PublishState, content_state
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.replica.store import ReplicaStore
from culm_models.dag.ucan.claims import revoked_by
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.walk.shard_blocks import ShardBlocks

_SETTLED_MAX: Final = 65_536


class MappedShards(Mapping[Cid, ShardBlocks]):
    """The shards of a folder as blocks: views into mapped files, opened when they are first used."""

    def __init__(self, database: sqlite3.Connection, shards: ShardTable) -> None:
        self._database = database
        self._shards = shards
        self._opened: dict[Cid, ShardBlocks] = {}
        self.missing: set[Cid] = set()
        """Shards that were looked up and are not here."""

    def __getitem__(self, cid: Cid) -> ShardBlocks:
        if cid not in self._opened:
            row = self._database.execute("SELECT shard FROM shards WHERE cid = ?", (cid.raw,)).fetchone()
            if row is None or not self._shards.is_sound(cid):
                self.missing.add(cid)
                raise KeyError(cid)
            with self._shards.file_path(cid).open("rb") as file:
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            query = "SELECT cid, offset, length FROM blocks WHERE shard = ?"
            self._opened[cid] = ShardBlocks(
                (),
                {
                    cid_from_bytes(raw): view[offset : offset + length]
                    for raw, offset, length in self._database.execute(query, row)
                },
            )
        return self._opened[cid]

    def __iter__(self) -> Iterator[Cid]:
        rows = self._database.execute("SELECT cid FROM shards").fetchall()
        return (cid_from_bytes(raw) for (raw,) in rows)

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM shards").fetchone()[0])


class PublishedReader:
    """Computes the published state of an id from the nodes and shards of one folder."""

    def __init__(
        self,
        database: sqlite3.Connection,
        judge: ProofJudge,
        queries: NodeQueries,
        shards: ShardTable,
        settings: ValidationRules,
    ) -> None:
        self._database = database
        self._settings = settings
        self._judge = judge
        self._settled: dict[Cid, PublishState] = {}
        self._queries = queries
        self._shards = shards

    def read(self, id: bytes) -> PublishedDag:
        """Return order, states, heads, and waiting publishes."""
        order = self._queries.order(id)
        shards = MappedShards(self._database, self._shards)
        missing = shards.missing
        missing.update(self._queries.lacked_by_publishes(id))
        publishes: list[OrderedPublish] = []
        revoked: frozenset[Cid] = frozenset()
        for cid in order.order():
            node = self._node(cid)
            change = node.change
            assert isinstance(change, PublishChange), "an order has publishes alone"
            state = self._revocation(node, revoked, missing) if revoked else None
            if state is not PublishState.REVOKED and change.proof.claims.issuer == did_key(id):
                revoked |= frozenset(revoked_by(change.proof.claims))
            if state is None:
                state = self._content_state(cid, change, shards)
            publishes.append(OrderedPublish(cid, node.prior, change.link, change.origin, change.shard, state))
        heads = tuple(cid for cid in sorted(order.heads()) if cid != order.tip)
        waiting = tuple(self._queries.waiting(id))
        return PublishedDag(id, tuple(publishes), heads, waiting, frozenset(missing))

    def forget(self) -> None:
        """Drop cached states, as a shard may be gone."""
        self._settled.clear()

    def _content_state(self, cid: Cid, change: PublishChange, shards: MappedShards) -> PublishState:
        """Return the state of a publish's content.

        A complete or partial state is cached, as everything that the publish's origin names is here then.
        """
        state = self._settled.get(cid)
        if state is None:
            state = content_state(change, self._below(change.origin, shards.missing), shards, self._settings)
            if state in (PublishState.COMPLETE, PublishState.PARTIAL):
                if len(self._settled) >= _SETTLED_MAX:
                    self._settled.clear()
                self._settled[cid] = state
        return state

    def _node(self, cid: Cid) -> ReplicaNode:
        block = self._queries.block(cid)
        assert block is not None, "what is in an order is here"
        return decode_node(block, legacy=self._settings.legacy, bounds=self._settings.bounds)

    def _revocation(
        self, node: ReplicaNode, revoked: frozenset[Cid], missing: set[Cid]
    ) -> PublishState | None:
        """Return the state of a publish after earlier revocations; None if they do not concern it.

        It is REVOKED, or PENDING while a missing proof may help.
        """
        query = "SELECT node FROM nodes WHERE cid = ?"
        (row,) = self._database.execute(query, (node.cid.raw,)).fetchone()
        state = PublishState.REVOKED
        for _, refused in self._judge.at_receipts(node, row, revoked):
            if refused is None:
                return None
            if isinstance(refused.error, UcanProofMissing):
                missing |= refused.missing
                state = PublishState.PENDING
        return state

    def _below(self, origin: Cid, missing: set[Cid]) -> ReplicaStore:
        """Return the nodes below an origin; nodes named there that were refused are marked."""
        store = ReplicaStore(legacy=self._settings.legacy, bounds=self._settings.bounds)
        stack, seen = [origin], {origin}
        while stack:
            cid = stack.pop()
            block = self._queries.block(cid)
            if block is None:
                if code := self._judge.refused_with(cid):
                    store.refuse(cid, DagError(code))
                else:
                    missing.add(cid)
                continue
            node, _ = store.add(block)
            if node.is_publish:
                continue
            for need in needs_of_block(cid, block, legacy=self._settings.legacy):
                if need not in seen:
                    seen.add(need)
                    stack.append(need)
        return store
