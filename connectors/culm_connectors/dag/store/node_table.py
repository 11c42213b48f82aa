"""Nodes and UCANs as they come: judged, kept, and made to fall when their parents prove them wrong (R25)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cache
from typing import Final

from culm_connectors.dag.store.outcomes import BlockKind, BlockOutcome, RefusedBlock
from culm_connectors.dag.store.tables import BUILDS, NEEDS
from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid, cid_from_bytes, cid_of
from culm_models.dag.errors import ChainMixed, DagError, PriorRefused, PublishIdChanged, UcanProofMissing
from culm_models.dag.exchange.needs import needs_of, read_block
from culm_models.dag.publish.authority import is_final
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import AppendChange, PublishChange, ReplicaNode
from culm_models.dag.ucan.chain import ChainRefusal, Published, authorise
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.signing import verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.verdict import VerdictSettings
from culm_models.dag.wire.messages import AckStatus

_REFUSED_MAX: Final = 100_000
_MAPS: Final = range(0xA0, 0xC0)


def block_cid(block: bytes) -> Cid:
    """The CID of a node or UCAN: a map is DAG-CBOR, all else is raw (reference 6)."""
    return cid_of(DAG_CBOR if block[:1] and block[0] in _MAPS else RAW, block)


class NodeTable:
    """What a folder does with blocks that come, inside the folder's transaction."""

    def __init__(self, database: sqlite3.Connection, settings: VerdictSettings) -> None:
        self._database = database
        self._settings = settings
        self._policy = settings.chain_policy
        self.ids_changed: set[bytes] = set()
        """Ids whose order got further publishes."""

    def put(
        self, space: bytes | None, block: bytes, received_at: int, *, recorded: bool = False
    ) -> BlockOutcome:
        """Judge one block, and keep it; `recorded` is told at `DagFolder.put_blocks`."""
        cid = block_cid(block)
        if code := self.refused_with(cid):
            return BlockOutcome(cid, None, AckStatus.REFUSED, code)
        row = self._database.execute("SELECT node, kind FROM nodes WHERE cid = ?", (cid.raw,)).fetchone()
        if row is not None:
            return self._put_again(space, cid, block, row[0], BlockKind(row[1]), received_at, recorded)
        try:
            if len(block) > self._settings.bounds.node:
                decode_node(block, bounds=self._settings.bounds)
            found = read_block(cid, block, legacy=self._settings.legacy)
            if isinstance(found, Ucan):
                verify_signature(found)
            else:
                self._check_parents(found)
        except DagError as error:
            return BlockOutcome(
                cid, None, AckStatus.REFUSED, error.code, fallen=tuple(self._refuse(cid, error.code)[1:])
            )
        if isinstance(found, Ucan):
            self._insert(space, cid, BlockKind.UCAN, found)
            fallen = self._review_publishes_above(cid)
            return BlockOutcome(
                cid, BlockKind.UCAN, AckStatus.DURABLE, None, self._missing(found), fallen=tuple(fallen)
            )
        return self._put_node(space, found, received_at)

    def _put_node(self, space: bytes | None, node: ReplicaNode, received_at: int) -> BlockOutcome:
        change = node.change
        refusal: ChainRefusal | None = None
        kind = BlockKind.APPEND if isinstance(change, AppendChange) else BlockKind.JOIN
        if isinstance(change, PublishChange):
            kind = BlockKind.PUBLISH
            refusal = self._judge(node, change, received_at)
            if refusal is not None and not isinstance(refusal.error, UcanProofMissing):
                code = refusal.error.code
                final = is_final(refusal.error)
                fallen = self._refuse(node.cid, code)[1:] if final else []
                return BlockOutcome(node.cid, kind, AckStatus.REFUSED, code, fallen=tuple(fallen))
            space = change.id
        row = self._insert(space, node.cid, kind, node)
        if isinstance(change, PublishChange):
            self._database.execute(
                "INSERT INTO publishes VALUES (?, ?, ?, 0)", (row, change.id, refusal is None)
            )
            self._database.execute("INSERT INTO receipts VALUES (?, ?)", (row, received_at))
            if refusal is None:
                self._admit(row)
        fallen = self._drop_wrong_children(node)
        missing = self._missing(node, refusal)
        return BlockOutcome(
            node.cid, kind, AckStatus.DURABLE, None, missing, self._in_order(row), tuple(fallen)
        )

    def _put_again(
        self,
        space: bytes | None,
        cid: Cid,
        block: bytes,
        row: int,
        kind: BlockKind,
        received_at: int,
        recorded: bool,
    ) -> BlockOutcome:
        if kind is not BlockKind.PUBLISH:
            if space is not None:
                self._place(space, row, cid)
            return BlockOutcome(cid, kind, AckStatus.HAD)
        in_order = self._in_order(row)
        if recorded or not in_order:
            self._database.execute("INSERT OR IGNORE INTO receipts VALUES (?, ?)", (row, received_at))
        if not in_order:
            self._review(row)
        return BlockOutcome(cid, kind, AckStatus.HAD, in_order=self._in_order(row))

    # Keeping.

    def _insert(self, space: bytes | None, cid: Cid, kind: BlockKind, found: ReplicaNode | Ucan) -> int:
        data = found.block if isinstance(found, Ucan) else found.data
        cursor = self._database.execute(
            "INSERT INTO nodes (cid, kind, block) VALUES (?, ?, ?)", (cid.raw, kind.value, data)
        )
        row = cursor.lastrowid
        if row is None:
            raise sqlite3.DatabaseError("a row without number")
        parents = () if isinstance(found, Ucan) else found.parents
        named = {(one.raw, row, BUILDS if one in parents else NEEDS) for one in needs_of(found)}
        self._database.executemany("INSERT INTO links VALUES (?, ?, ?)", sorted(named))
        if not isinstance(found, Ucan):
            shards = [(shard.raw, row) for shard in found.shards]
            self._database.executemany("INSERT INTO names VALUES (?, ?)", shards)
        if space is not None:
            self._place(space, row, cid, is_ucan=kind is BlockKind.UCAN)
        return row

    def _place(self, space: bytes, row: int, cid: Cid, *, is_ucan: bool | None = None) -> None:
        if is_ucan is None:
            query = "SELECT kind FROM nodes WHERE node = ?"
            is_ucan = self._database.execute(query, (row,)).fetchone()[0] == BlockKind.UCAN
        is_head = not is_ucan and not self._has_child(space, cid.raw)
        self._database.execute("INSERT OR IGNORE INTO places VALUES (?, ?, ?)", (space, row, is_head))
        self._database.execute(
            "UPDATE places SET is_head = 0 WHERE space = ? AND is_head = 1 AND node IN "
            "(SELECT n.node FROM links l JOIN nodes n ON n.cid = l.named WHERE l.child = ? AND l.how = ?)",
            (space, row, BUILDS),
        )

    def _has_child(self, space: bytes, raw: bytes) -> bool:
        query = (
            "SELECT 1 FROM links l JOIN places p ON p.node = l.child AND p.space = ? "
            "WHERE l.named = ? AND l.how = ? LIMIT 1"
        )
        return self._database.execute(query, (space, raw, BUILDS)).fetchone() is not None

    def _missing(self, found: ReplicaNode | Ucan, refusal: ChainRefusal | None = None) -> tuple[Cid, ...]:
        needs = set(found.claims.proofs if isinstance(found, Ucan) else found.parents)
        if not isinstance(found, Ucan) and isinstance(found.change, PublishChange):
            needs.add(found.change.origin)
        needs |= refusal.missing if refusal is not None else frozenset()
        return tuple(sorted(need for need in needs if not self.has_verdict(need)))

    def has_verdict(self, cid: Cid) -> bool:
        """Whether a node is here in any space, or was refused for good."""
        query = "SELECT 1 FROM nodes WHERE cid = ?1 UNION ALL SELECT 1 FROM refused WHERE cid = ?1"
        return self._database.execute(query, (cid.raw,)).fetchone() is not None

    # Rules between nodes.

    def _check_parents(self, node: ReplicaNode) -> None:
        own_id = node.change.id if isinstance(node.change, PublishChange) else None
        for parent in node.parents:
            if self.refused_with(parent):
                raise PriorRefused(f"{parent} was refused")
            query = (
                "SELECT n.kind, p.id FROM nodes n LEFT JOIN publishes p ON p.node = n.node WHERE n.cid = ?"
            )
            row = self._database.execute(query, (parent.raw,)).fetchone()
            if row is not None and (row[0] == BlockKind.PUBLISH) != node.is_publish:
                raise ChainMixed("publishes build on publishes, and nothing else does")
            if row is not None and row[1] != own_id:
                raise PublishIdChanged("the prior publishes to another id")

    def _drop_wrong_children(self, node: ReplicaNode) -> list[RefusedBlock]:
        fallen: list[RefusedBlock] = []
        for _, block in self._children(node.cid.raw):
            child = decode_node(block, legacy=self._settings.legacy, bounds=self._settings.bounds)
            try:
                self._check_parents(child)
            except DagError as error:
                fallen += self._refuse(child.cid, error.code)
        return fallen

    def _children(self, raw: bytes) -> list[tuple[int, bytes]]:
        query = (
            "SELECT n.node, n.block FROM links l JOIN nodes n ON n.node = l.child "
            "WHERE l.named = ? AND l.how = ? ORDER BY n.cid"
        )
        return self._database.execute(query, (raw, BUILDS)).fetchall()

    def refused_with(self, cid: Cid) -> str | None:
        """The code with which a block was refused for good."""
        row = self._database.execute("SELECT code FROM refused WHERE cid = ?", (cid.raw,)).fetchone()
        return None if row is None else str(row[0])

    def _refuse(self, cid: Cid, code: str) -> list[RefusedBlock]:
        """Refuse a block for good, and with it all that build on it; the block itself comes first."""
        fallen: list[RefusedBlock] = []
        waiting = [(cid.raw, code)]
        while waiting:
            raw, why = waiting.pop()
            cursor = self._database.execute(
                "INSERT OR IGNORE INTO refused (cid, code) VALUES (?, ?)", (raw, why)
            )
            if not cursor.rowcount:
                continue
            fallen.append(RefusedBlock(cid_from_bytes(raw), why))
            waiting += [(cid_of(DAG_CBOR, block).raw, PriorRefused.code) for _, block in self._children(raw)]
            self._delete(raw)
        newest = "SELECT max(refusal) FROM refused"
        self._database.execute(f"DELETE FROM refused WHERE refusal <= ({newest}) - ?", (_REFUSED_MAX,))
        fallen += self._review_publishes_above(cid)
        return fallen

    def _delete(self, raw: bytes) -> None:
        row = self._database.execute("SELECT node FROM nodes WHERE cid = ?", (raw,)).fetchone()
        if row is None:
            return
        parents = self._database.execute(
            "SELECT n.node, n.cid, p.space FROM links l JOIN nodes n ON n.cid = l.named "
            "JOIN places p ON p.node = n.node WHERE l.child = ? AND l.how = ?",
            (row[0], BUILDS),
        ).fetchall()
        for table in ("places", "names", "publishes", "receipts", "nodes"):
            self._database.execute(f"DELETE FROM {table} WHERE node = ?", row)
        self._database.execute("DELETE FROM links WHERE child = ?", row)
        for parent, parent_raw, space in parents:
            if not self._has_child(space, parent_raw):
                query = "UPDATE places SET is_head = 1 WHERE space = ? AND node = ?"
                self._database.execute(query, (space, parent))

    # Publishes.

    def _ucan(self, cid: Cid) -> Ucan | DagError | None:
        if code := self.refused_with(cid):
            return _errors()[code](f"{cid} was refused")
        row = self._database.execute("SELECT block FROM nodes WHERE cid = ?", (cid.raw,)).fetchone()
        if row is None:
            return None
        found = read_block(cid, row[0], legacy=self._settings.legacy)
        return found if isinstance(found, Ucan) else ChainMixed("a node, where a proof is named")

    def judge(
        self, node: ReplicaNode, received_at: int, revoked: frozenset[Cid] = frozenset()
    ) -> ChainRefusal | None:
        """None when a publish, received at this time, is authorised by what is here."""
        assert isinstance(node.change, PublishChange), "only publishes are judged"
        return self._judge(node, node.change, received_at, revoked)

    def _judge(
        self,
        node: ReplicaNode,
        change: PublishChange,
        received_at: int,
        revoked: frozenset[Cid] = frozenset(),
    ) -> ChainRefusal | None:
        fields = {"link": change.link, "origin": change.origin}
        fields |= {} if node.prior is None else {"prior": node.prior}
        fields |= {} if change.shard is None else {"shard": change.shard}
        try:
            verify_signature(change.proof)
        except DagError as error:
            return ChainRefusal(error, frozenset())
        published = Published(did_key(change.id), fields)
        return authorise(
            change.proof, published, self._ucan, received_at, policy=self._policy, revoked=revoked
        )

    def _review_publishes_above(self, proof: Cid) -> list[RefusedBlock]:
        """Judge again what waits for a UCAN, however far above it."""
        fallen: list[RefusedBlock] = []
        seen: set[bytes] = set()
        above = [proof.raw]
        while above:
            raw = above.pop()
            query = (
                "SELECT n.node, n.cid, n.kind FROM links l JOIN nodes n ON n.node = l.child "
                "WHERE l.named = ? AND l.how = ? ORDER BY n.cid"
            )
            for row, child, kind in self._database.execute(query, (raw, NEEDS)).fetchall():
                if kind == BlockKind.UCAN and child not in seen:
                    seen.add(child)
                    above.append(child)
                elif kind == BlockKind.PUBLISH:
                    fallen += self._review(row)
        return fallen

    def _review(self, row: int) -> list[RefusedBlock]:
        """Judge a publish that is not authorised again, at each of its receipts."""
        query = (
            "SELECT n.block FROM publishes p JOIN nodes n USING (node) WHERE node = ? AND NOT is_authorised"
        )
        found = self._database.execute(query, (row,)).fetchone()
        if found is None:
            return []
        node = decode_node(found[0], legacy=self._settings.legacy, bounds=self._settings.bounds)
        for time in self.receipts(row):
            refusal = self.judge(node, time)
            if refusal is None:
                self._database.execute("UPDATE publishes SET is_authorised = 1 WHERE node = ?", (row,))
                self._admit(row)
                return []
            if is_final(refusal.error):
                return self._refuse(node.cid, refusal.error.code)
        return []

    def receipts(self, row: int) -> list[int]:
        """The times of receipt of a publish, ascending."""
        query = "SELECT received_at FROM receipts WHERE node = ? ORDER BY received_at"
        return [time for (time,) in self._database.execute(query, (row,))]

    def standing_receipts(self, cid: Cid) -> list[int]:
        """Those that no clock refuses, ascending: what was refused so when it came is not kept either."""
        query = "SELECT node, block FROM nodes JOIN publishes USING (node) WHERE cid = ?"
        found = self._database.execute(query, (cid.raw,)).fetchone()
        if found is None:
            return []
        node = decode_node(found[1], legacy=self._settings.legacy, bounds=self._settings.bounds)
        judged = ((time, self.judge(node, time)) for time in self.receipts(found[0]))
        return [time for time, no in judged if no is None or isinstance(no.error, UcanProofMissing)]

    def _admit(self, row: int) -> None:
        """Put an authorised publish into its order if its prior is in it, and those that waited for it."""
        ready = [row]
        while ready:
            query = (
                "SELECT p.id, n.cid, p.in_order, (SELECT count(*) FROM links l "
                "LEFT JOIN nodes m ON m.cid = l.named LEFT JOIN publishes q ON q.node = m.node "
                "WHERE l.child = n.node AND l.how = ? AND ifnull(q.in_order, 0) = 0) "
                "FROM publishes p JOIN nodes n USING (node) WHERE node = ? AND is_authorised"
            )
            found = self._database.execute(query, (BUILDS, ready[-1])).fetchone()
            at = ready.pop()
            if found is None or found[2] or found[3]:
                continue
            self._database.execute("UPDATE publishes SET in_order = 1 WHERE node = ?", (at,))
            self.ids_changed.add(found[0])
            ready += [child for child, _ in self._children(found[1])]

    def _in_order(self, row: int) -> bool:
        query = "SELECT in_order FROM publishes WHERE node = ?"
        found = self._database.execute(query, (row,)).fetchone()
        return found is not None and bool(found[0])


@cache
def _errors() -> dict[str, type[DagError]]:
    """Every code's class."""
    found: dict[str, type[DagError]] = {}
    waiting: Iterable[type[DagError]] = [DagError]
    while waiting:
        found |= {one.code: one for one in waiting}
        waiting = [below for one in waiting for below in one.__subclasses__()]
    return found
