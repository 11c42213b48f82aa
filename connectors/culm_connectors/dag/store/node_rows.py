"""Rows of nodes and UCANs: their blocks, what they name, and their places and heads in spaces."""

from __future__ import annotations

import sqlite3

from culm_connectors.dag.store.outcomes import DagBlockKind
from culm_connectors.dag.store.tables import BUILDS, NEEDS
from culm_connectors.dag.store.waiting import WaitingNodes
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.needs import needs_of
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.ucan.token import Ucan


class NodeRows:
    """Writes and deletes the rows of valid nodes, inside the folder's transaction.

    The CIDs that a space requests are kept up to date with them.
    """

    def __init__(self, database: sqlite3.Connection, waiting: WaitingNodes) -> None:
        self._database = database
        self._waiting = waiting

    def insert(self, space: bytes | None, cid: Cid, kind: DagBlockKind, node: ReplicaNode | Ucan) -> int:
        """Keep a new node, in a space if there is one; returns the number of its row."""
        data = node.block if isinstance(node, Ucan) else node.data
        cursor = self._database.execute(
            "INSERT INTO nodes (cid, kind, block) VALUES (?, ?, ?)", (cid.raw, kind.value, data)
        )
        row = cursor.lastrowid
        if row is None:
            raise sqlite3.DatabaseError("a row without number")
        parents = () if isinstance(node, Ucan) else node.parents
        named = {(need.raw, row, BUILDS if need in parents else NEEDS) for need in needs_of(node)}
        self._database.executemany("INSERT INTO links VALUES (?, ?, ?)", sorted(named))
        if not isinstance(node, Ucan):
            shards = [(shard.raw, row) for shard in node.shards]
            self._database.executemany("INSERT INTO names VALUES (?, ?)", shards)
        if space is not None:
            self.place(space, row, cid, kind)
        return row

    def place(self, space: bytes, row: int, cid: Cid, kind: DagBlockKind) -> bool:
        """Record that a node belongs to a space; returns whether that is new."""
        values = (space, row, not self._has_child(space, cid.raw, kind))
        cursor = self._database.execute("INSERT OR IGNORE INTO places VALUES (?, ?, ?)", values)
        self._database.execute(
            "UPDATE places SET is_head = 0 WHERE space = ? AND is_head = 1 AND node IN "
            "(SELECT n.node FROM links l JOIN nodes n ON n.cid = l.named "
            "WHERE l.child = ? AND (l.how = ? OR n.kind = ?))",
            (space, row, BUILDS, DagBlockKind.UCAN.value),
        )
        self._waiting.placed(space, row, cid.raw, is_publish=kind is DagBlockKind.PUBLISH)
        return bool(cursor.rowcount)

    def delete(self, raw: bytes) -> None:
        """Delete a node if it is here; nodes that nothing else builds on are heads again."""
        row = self._database.execute("SELECT node FROM nodes WHERE cid = ?", (raw,)).fetchone()
        if row is None:
            return
        parents = self._database.execute(
            "SELECT n.node, n.cid, n.kind, p.space FROM links l JOIN nodes n ON n.cid = l.named "
            "JOIN places p ON p.node = n.node WHERE l.child = ? AND (l.how = ? OR n.kind = ?)",
            (row[0], BUILDS, DagBlockKind.UCAN.value),
        ).fetchall()
        named = self._database.execute("SELECT named FROM links WHERE child = ?", row).fetchall()
        spaces = self._database.execute("SELECT space FROM places WHERE node = ?", row).fetchall()
        for table in ("places", "names", "publishes", "receipts", "nodes"):
            self._database.execute(f"DELETE FROM {table} WHERE node = ?", row)
        self._database.execute("DELETE FROM links WHERE child = ?", row)
        self._waiting.deleted(row[0], named, spaces)
        for parent, parent_raw, kind, space in parents:
            if not self._has_child(space, parent_raw, DagBlockKind(kind)):
                query = "UPDATE places SET is_head = 1 WHERE space = ? AND node = ?"
                self._database.execute(query, (space, parent))

    def children(self, raw: bytes) -> list[tuple[int, bytes]]:
        """Return number and block of the nodes that build on a node, ascending by the bytes of their CIDs."""
        query = (
            "SELECT n.node, n.block FROM links l JOIN nodes n ON n.node = l.child "
            "WHERE l.named = ? AND l.how = ? ORDER BY n.cid"
        )
        return self._database.execute(query, (raw, BUILDS)).fetchall()

    def _has_child(self, space: bytes, raw: bytes, kind: DagBlockKind) -> bool:
        """Return whether something in a space builds on a node, or names a UCAN as its proof."""
        query = (
            "SELECT 1 FROM links l JOIN places p ON p.node = l.child AND p.space = ? "
            "WHERE l.named = ? AND l.how = ? LIMIT 1"
        )
        how = NEEDS if kind is DagBlockKind.UCAN else BUILDS
        return self._database.execute(query, (space, raw, how)).fetchone() is not None
