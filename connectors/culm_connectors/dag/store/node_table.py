"""Incoming nodes and UCANs: validated, kept, and refused later if their parents prove them wrong (R25)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.store.blocked import BlockedKeys
from culm_connectors.dag.store.judging import ProofJudge
from culm_connectors.dag.store.node_rows import NodeRows
from culm_connectors.dag.store.outcomes import BlockOutcome, DagBlockKind, RefusedBlock
from culm_connectors.dag.store.tables import BUILDS, NEEDS
from culm_connectors.dag.store.waiting import WaitingNodes
from culm_models.dag.blocks.cid import DAG_CBOR, RAW, Cid, cid_from_bytes, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.errors import (
    Blocked,
    ChainMixed,
    DagError,
    PriorRefused,
    PublishIdChanged,
    UcanProofMissing,
    WaitingFull,
)
from culm_models.dag.exchange.needs import read_block
from culm_models.dag.publish.authority import is_final
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import AppendChange, PublishChange, ReplicaNode
from culm_models.dag.ucan.chain import ChainRefusal
from culm_models.dag.ucan.signing import verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.wire.messages import AckStatus

_REFUSED_MAX: Final = 100_000
_MAPS: Final = range(0xA0, 0xC0)


def block_cid(block: bytes) -> Cid:
    """Return the CID of a node or UCAN: a map is DAG-CBOR, all else is raw (reference 6)."""
    return cid_of(DAG_CBOR if block[:1] and block[0] in _MAPS else RAW, block)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Time and origin of blocks."""

    received_at: int
    recorded: bool = False
    """The receipt is already in a record, so it is kept even for a publish that is in the order."""
    peer: bytes | None = None
    """The peer that sent the blocks. The limits on waiting nodes (3.4) apply only to blocks from peers."""


class NodeTable:
    """Puts incoming blocks into a folder, inside the folder's transaction."""

    def __init__(
        self,
        database: sqlite3.Connection,
        settings: ValidationRules,
        judge: ProofJudge,
        waiting: WaitingNodes,
        blocked: BlockedKeys,
    ) -> None:
        self._database = database
        self._rows = NodeRows(database, waiting)
        self._settings = settings
        self._judge = judge
        self._waiting = waiting
        self._blocked = blocked
        self.ids_changed: set[bytes] = set()
        """Ids whose order got further publishes."""

    def put(self, space: bytes | None, block: bytes, receipt: Receipt) -> BlockOutcome:
        """Validate one block, and keep it."""
        cid = block_cid(block)
        if code := self._judge.refused_with(cid):
            return BlockOutcome(cid, None, AckStatus.REFUSED, code)
        row = self._database.execute("SELECT node, kind FROM nodes WHERE cid = ?", (cid.raw,)).fetchone()
        if row is not None:
            return self._put_again(space, cid, row[0], DagBlockKind(row[1]), receipt)
        try:
            if len(block) > self._settings.bounds.node:
                decode_node(block, bounds=self._settings.bounds)
            decoded = read_block(cid, block, legacy=self._settings.legacy, bounds=self._settings.bounds)
            if isinstance(decoded, Ucan):
                verify_signature(decoded)
            else:
                self._check_parents(decoded)
        except DagError as error:
            return BlockOutcome(
                cid, None, AckStatus.REFUSED, error.code, fallen=tuple(self._refuse(cid, error.code)[1:])
            )
        change = decoded.change if isinstance(decoded, ReplicaNode) else None
        home = change.id if isinstance(change, PublishChange) else space
        # Blocks that are already in a blocked space stay (R33).
        if receipt.peer is not None and home is not None and self._blocked.reason(home) is not None:
            return BlockOutcome(cid, None, AckStatus.REFUSED, Blocked.code)
        if isinstance(decoded, Ucan):
            return self._put_ucan(space, cid, decoded, receipt)
        return self._put_node(space, decoded, receipt)

    def _put_ucan(self, space: bytes | None, cid: Cid, ucan: Ucan, receipt: Receipt) -> BlockOutcome:
        waits_for = self._unvalidated(ucan.claims.proofs)
        if not self._may_wait(cid, space, len(ucan.block), receipt, waits_for):
            return BlockOutcome(cid, DagBlockKind.UCAN, AckStatus.LATER, WaitingFull.code)
        row = self._rows.insert(space, cid, DagBlockKind.UCAN, ucan)
        self._waiting.enter(row, space, receipt.peer, len(ucan.block), waits_for)
        # The publishes above are reviewed before the waiting for this UCAN ends, and go on waiting for what
        # is below it.
        fallen = self._review_publishes_above(cid)
        self._waiting.settled(cid.raw)
        return BlockOutcome(cid, DagBlockKind.UCAN, AckStatus.DURABLE, None, waits_for, fallen=tuple(fallen))

    def _put_node(self, space: bytes | None, node: ReplicaNode, receipt: Receipt) -> BlockOutcome:
        change = node.change
        refusal: ChainRefusal | None = None
        kind = DagBlockKind.APPEND if isinstance(change, AppendChange) else DagBlockKind.JOIN
        if isinstance(change, PublishChange):
            kind = DagBlockKind.PUBLISH
            refusal = self._judge.judge(node, receipt.received_at)
            if refusal is not None and not isinstance(refusal.error, UcanProofMissing):
                code = refusal.error.code
                final = is_final(refusal.error)
                fallen = self._refuse(node.cid, code)[1:] if final else []
                return BlockOutcome(node.cid, kind, AckStatus.REFUSED, code, fallen=tuple(fallen))
            space = change.id
        waits_for = self._waits_for(node, refusal.missing if refusal is not None else frozenset())
        if not self._may_wait(node.cid, space, len(node.data), receipt, waits_for):
            return BlockOutcome(node.cid, kind, AckStatus.LATER, WaitingFull.code)
        row = self._rows.insert(space, node.cid, kind, node)
        self._waiting.enter(row, space, receipt.peer, len(node.data), waits_for)
        if isinstance(change, PublishChange):
            self._database.execute(
                "INSERT INTO publishes VALUES (?, ?, ?, 0)", (row, change.id, refusal is None)
            )
            self._database.execute("INSERT INTO receipts VALUES (?, ?)", (row, receipt.received_at))
            if refusal is None:
                self._admit(row)
        self._waiting.settled(node.cid.raw)
        fallen = self._drop_wrong_children(node)
        is_publish = isinstance(change, PublishChange)
        missing = self._missing_of_publish(row, waits_for) if is_publish else waits_for
        return BlockOutcome(
            node.cid, kind, AckStatus.DURABLE, None, missing, self._in_order(row), tuple(fallen)
        )

    def _waits_for(self, node: ReplicaNode, proofs: frozenset[Cid]) -> tuple[Cid, ...]:
        """Return the prior and forks that are missing, and these proofs."""
        return self._unvalidated((*node.parents, *proofs))

    def _unvalidated(self, cids: Iterable[Cid]) -> tuple[Cid, ...]:
        return tuple(sorted({cid for cid in cids if not self._is_validated(cid)}))

    def _is_validated(self, cid: Cid) -> bool:
        """Return whether a node is here in any space, or was finally refused."""
        query = "SELECT 1 FROM nodes WHERE cid = ?1 UNION ALL SELECT 1 FROM refused WHERE cid = ?1"
        return self._database.execute(query, (cid.raw,)).fetchone() is not None

    def _may_wait(
        self, cid: Cid, space: bytes | None, size: int, receipt: Receipt, waits_for: tuple[Cid, ...]
    ) -> bool:
        """Return whether there is capacity for a peer's node that waits for these; True for other nodes."""
        peer = receipt.peer
        return peer is None or not waits_for or self._waiting.make_capacity(cid, space, peer, size)

    def _put_again(
        self, space: bytes | None, cid: Cid, row: int, kind: DagBlockKind, receipt: Receipt
    ) -> BlockOutcome:
        if kind is not DagBlockKind.PUBLISH:
            is_placed = space is not None and self._rows.place(space, row, cid, kind)
            missing = tuple(sorted(self._waiting.of_node(row)))
            return BlockOutcome(cid, kind, AckStatus.HAD, None, missing, is_placed=is_placed)
        in_order = self._in_order(row)
        if receipt.recorded or not in_order:
            self._database.execute("INSERT OR IGNORE INTO receipts VALUES (?, ?)", (row, receipt.received_at))
        if not in_order:
            self._review(row)
        missing = self._missing_of_publish(row, self._waiting.of_node(row))
        return BlockOutcome(cid, kind, AckStatus.HAD, None, missing, self._in_order(row))

    def _missing_of_publish(self, row: int, waits_for: Iterable[Cid]) -> tuple[Cid, ...]:
        """Return what a publish waits for, and its origin if that is missing."""
        query = "SELECT block FROM nodes WHERE node = ?"
        publish = self._database.execute(query, (row,)).fetchone()
        if publish is None:
            return ()  # it was refused for its time meanwhile
        origin = decode_dag_cbor(publish[0])["change"]["origin"]
        return tuple(sorted({*waits_for, *self._unvalidated((origin,))}))

    # Rules between nodes.

    def _check_parents(self, node: ReplicaNode) -> None:
        own_id = node.change.id if isinstance(node.change, PublishChange) else None
        for parent in node.parents:
            if self._judge.refused_with(parent):
                raise PriorRefused(f"{parent} was refused")
            query = (
                "SELECT n.kind, p.id FROM nodes n LEFT JOIN publishes p ON p.node = n.node WHERE n.cid = ?"
            )
            row = self._database.execute(query, (parent.raw,)).fetchone()
            if row is None or row[0] == DagBlockKind.UCAN:
                continue  # a UCAN is not a node: a node that names it as its prior waits forever
            if (row[0] == DagBlockKind.PUBLISH) != node.is_publish:
                raise ChainMixed("publishes build on publishes, and nothing else does")
            if row[1] != own_id:
                raise PublishIdChanged("the prior publishes to another id")

    def _drop_wrong_children(self, node: ReplicaNode) -> list[RefusedBlock]:
        fallen: list[RefusedBlock] = []
        for _, block in self._rows.children(node.cid.raw):
            child = decode_node(block, legacy=self._settings.legacy, bounds=self._settings.bounds)
            try:
                self._check_parents(child)
            except DagError as error:
                fallen += self._refuse(child.cid, error.code)
        return fallen

    def _refuse(self, cid: Cid, code: str) -> list[RefusedBlock]:
        """Refuse a block finally, with everything that builds on it; the block itself comes first."""
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
            waiting += [
                (cid_of(DAG_CBOR, block).raw, PriorRefused.code) for _, block in self._rows.children(raw)
            ]
            self._rows.delete(raw)
            self._waiting.refused(raw)
        self._forget_oldest_refusals()
        fallen += self._review_publishes_above(cid)
        return fallen

    def _forget_oldest_refusals(self) -> None:
        query = "SELECT cid FROM refused WHERE refusal <= (SELECT max(refusal) FROM refused) - ?"
        for (raw,) in self._database.execute(query, (_REFUSED_MAX,)).fetchall():
            self._database.execute("DELETE FROM refused WHERE cid = ?", (raw,))
            self._waiting.gone(raw)

    # Publishes.

    def _review_publishes_above(self, proof: Cid) -> list[RefusedBlock]:
        """Validate again the publishes that wait for a UCAN, however far above it."""
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
                if kind == DagBlockKind.UCAN and child not in seen:
                    seen.add(child)
                    above.append(child)
                elif kind == DagBlockKind.PUBLISH:
                    fallen += self._review(row)
        return fallen

    def _review(self, row: int) -> list[RefusedBlock]:
        """Validate a publish that is not authorised again, at each of its receipts."""
        query = (
            "SELECT n.block FROM publishes p JOIN nodes n USING (node) WHERE node = ? AND NOT is_authorised"
        )
        publish = self._database.execute(query, (row,)).fetchone()
        if publish is None:
            return []
        node = decode_node(publish[0], legacy=self._settings.legacy, bounds=self._settings.bounds)
        missing: frozenset[Cid] = frozenset()
        stands = False
        for _, refusal in self._judge.at_receipts(node, row):
            if refusal is None:
                self._database.execute("UPDATE publishes SET is_authorised = 1 WHERE node = ?", (row,))
                self._waiting.waits_for(row, self._waits_for(node, frozenset()))
                self._admit(row)
                return []
            if is_final(refusal.error):
                return self._refuse(node.cid, refusal.error.code)
            stands = stands or isinstance(refusal.error, UcanProofMissing)
            missing |= refusal.missing
        if stands:
            self._waiting.waits_for(row, self._waits_for(node, missing))
        else:
            # A publish that is refused for its time is not kept, whatever came first (R25).
            self._rows.delete(node.cid.raw)
            self._waiting.gone(node.cid.raw)
        return []

    def _admit(self, row: int) -> None:
        """Put an authorised publish into its order if its prior is in it, and then those that build on it."""
        ready = [row]
        while ready:
            query = (
                "SELECT p.id, n.cid, p.in_order, (SELECT count(*) FROM links l "
                "LEFT JOIN nodes m ON m.cid = l.named LEFT JOIN publishes q ON q.node = m.node "
                "WHERE l.child = n.node AND l.how = ? AND ifnull(q.in_order, 0) = 0) "
                "FROM publishes p JOIN nodes n USING (node) WHERE node = ? AND is_authorised"
            )
            publish = self._database.execute(query, (BUILDS, ready[-1])).fetchone()
            at = ready.pop()
            if publish is None or publish[2] or publish[3]:
                continue
            self._database.execute("UPDATE publishes SET in_order = 1 WHERE node = ?", (at,))
            self.ids_changed.add(publish[0])
            ready += [child for child, _ in self._rows.children(publish[1])]

    def _in_order(self, row: int) -> bool:
        query = "SELECT in_order FROM publishes WHERE node = ?"
        publish = self._database.execute(query, (row,)).fetchone()
        return publish is not None and bool(publish[0])
