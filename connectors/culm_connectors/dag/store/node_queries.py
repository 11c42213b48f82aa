"""Queries about the nodes of a folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator

from culm_connectors.dag.store.outcomes import DagBlockKind, MissingBlocks
from culm_connectors.dag.store.tables import BUILDS
from culm_connectors.edge.fair_turns import at_once
from culm_models.dag.blocks.cid import Cid, cid_from_bytes
from culm_models.dag.exchange.needs import needs_of_block
from culm_models.dag.order.total_order import TotalOrder, order_of
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.walk.shard_blocks import is_opaque

_PUBLISHES = (DagBlockKind.PUBLISH.value, DagBlockKind.UCAN.value)
"""Kinds whose heads are reported separately from those of the other nodes."""


class NodeQueries:
    """Queries of the tables of one folder."""

    def __init__(self, database: sqlite3.Connection, settings: ValidationRules) -> None:
        self._database = database
        self._settings = settings

    def block(self, cid: Cid, space: bytes | None = None) -> bytes | None:
        """Return the block of a node or UCAN, in any space or in one; None if it is not there."""
        query = "SELECT block FROM nodes WHERE cid = ?"
        parameters: tuple[bytes, ...] = (cid.raw,)
        if space is not None:
            query += " AND node IN (SELECT node FROM places WHERE places.node = nodes.node AND space = ?)"
            parameters = (cid.raw, space)
        row = self._database.execute(query, parameters).fetchone()
        return None if row is None else bytes(row[0])

    def kind(self, cid: Cid) -> DagBlockKind | None:
        """Return the kind of a node or UCAN, or None if it is not here."""
        row = self._database.execute("SELECT kind FROM nodes WHERE cid = ?", (cid.raw,)).fetchone()
        return None if row is None else DagBlockKind(row[0])

    def placed(self) -> Iterator[tuple[bytes | None, Cid, DagBlockKind]]:
        """Return every node with each of its spaces, or with None if it has no space."""
        query = "SELECT p.space, n.cid, n.kind FROM nodes n LEFT JOIN places p USING (node)"
        for space, raw, kind in self._database.execute(query).fetchall():
            yield space, cid_from_bytes(raw), DagBlockKind(kind)

    def is_placed(self, space: bytes, cid: Cid) -> bool:
        """Return whether a node is in a space; a publish counts as in every space."""
        query = (
            "SELECT 1 FROM nodes n WHERE n.cid = ? AND (n.kind = ? OR EXISTS "
            "(SELECT 1 FROM places p WHERE p.space = ? AND p.node = n.node))"
        )
        parameters = (cid.raw, DagBlockKind.PUBLISH.value, space)
        return self._database.execute(query, parameters).fetchone() is not None

    def heads(self, space: bytes, *, publishes: bool) -> list[Cid]:
        """Return the nodes in a space that nothing builds on, ascending.

        With `publishes`, these are publishes, and UCANs that nothing names as its proof.
        """
        query = (
            "SELECT n.cid FROM places p JOIN nodes n USING (node) "
            "WHERE p.space = ? AND p.is_head = 1 AND (n.kind IN (?, ?)) = ?"
        )
        rows = self._database.execute(query, (space, *_PUBLISHES, publishes))
        return sorted(cid_from_bytes(raw) for (raw,) in rows)

    def heads_among(self, space: bytes, cids: Iterable[Cid]) -> tuple[list[Cid], list[Cid]]:
        """Return which of these nodes are heads of a space: first the others, then publishes and UCANs.

        The cost depends on the number of these nodes, not on the number of heads.
        """
        query = (
            "SELECT n.kind IN (?, ?) FROM nodes n JOIN places p ON p.space = ? AND p.node = n.node "
            "WHERE n.cid = ? AND +p.is_head = 1"
        )
        heads: tuple[list[Cid], list[Cid]] = ([], [])
        for cid in sorted(set(cids)):
            row = self._database.execute(query, (*_PUBLISHES, space, cid.raw)).fetchone()
            if row is not None:
                heads[row[0]].append(cid)
        return heads

    def whole_heads(self, space: bytes) -> list[Cid]:
        """Return the heads other than publishes and UCANs all of whose ancestors are here, ascending.

        A node that is missing a parent waits; so do all nodes that build on it.
        """
        query = (
            "WITH RECURSIVE waiting (node) AS (SELECT child FROM lacks UNION "
            "SELECT l.child FROM waiting w JOIN nodes n ON n.node = w.node "
            "JOIN links l ON l.named = n.cid AND l.how = ?) "
            "SELECT n.cid FROM places p JOIN nodes n ON n.node = p.node WHERE p.space = ? AND p.is_head = 1 "
            "AND n.kind NOT IN (?, ?) AND p.node NOT IN (SELECT node FROM waiting)"
        )
        rows = self._database.execute(query, (BUILDS, space, *_PUBLISHES))
        return sorted(cid_from_bytes(raw) for (raw,) in rows)

    def spaces(self) -> list[bytes]:
        """Return every space with a node or a shard, ascending."""
        query = "SELECT DISTINCT space FROM places UNION SELECT DISTINCT space FROM shard_places"
        return sorted(space for (space,) in self._database.execute(query))

    def nodes(self, space: bytes) -> Iterator[tuple[Cid, bytes]]:
        """Return all nodes and UCANs of a space, ascending by text; their blocks are read one by one."""
        query = "SELECT n.cid FROM places p JOIN nodes n USING (node) WHERE p.space = ?"
        rows = self._database.execute(query, (space,)).fetchall()
        for cid in sorted(cid_from_bytes(raw) for (raw,) in rows):
            block = self.block(cid)
            if block is not None:
                yield cid, block

    def missing(self, heads: Iterable[Cid]) -> MissingBlocks:
        """Return what is missing of the states of some nodes; for a publish, of its chain and its origin."""
        return at_once(self.missing_steps(heads))

    def missing_steps(self, heads: Iterable[Cid]) -> Generator[None, None, MissingBlocks]:
        """Return the same as `missing`, in steps that read one node each."""
        stack = list(heads)
        seen = set(stack)
        missing: set[Cid] = set()
        shards: set[Cid] = set()
        while stack:
            yield
            cid = stack.pop()
            block = self.block(cid)
            if block is None:
                missing.add(cid)
                continue
            query = "SELECT s.shard FROM names s JOIN nodes n USING (node) WHERE n.cid = ?"
            shards |= {cid_from_bytes(raw) for (raw,) in self._database.execute(query, (cid.raw,))}
            for need in needs_of_block(cid, block, legacy=self._settings.legacy):
                if need not in seen:
                    seen.add(need)
                    stack.append(need)
        opaque = {shard for shard in shards if is_opaque(shard, self._settings.hashes)}
        absent = {shard for shard in shards - opaque if not shard.is_identity and not self._has_shard(shard)}
        return MissingBlocks(tuple(sorted(missing)), tuple(sorted(absent)), tuple(sorted(opaque)))

    def _has_shard(self, cid: Cid) -> bool:
        query = "SELECT 1 FROM shards WHERE cid = ?"
        return self._database.execute(query, (cid.raw,)).fetchone() is not None

    def order(self, id: bytes) -> TotalOrder:
        """Return the order of an id, from its rows."""
        query = (
            "SELECT n.cid, (SELECT l.named FROM links l WHERE l.child = n.node AND l.how = 0) "
            "FROM publishes p JOIN nodes n USING (node) WHERE p.id = ? AND p.in_order = 1"
        )
        rows = self._database.execute(query, (id,)).fetchall()
        return order_of(
            (cid_from_bytes(raw), None if prior is None else cid_from_bytes(prior)) for raw, prior in rows
        )

    def lacked_by_publishes(self, id: bytes) -> list[Cid]:
        """Return the missing priors and proofs that publishes of an id wait for."""
        query = "SELECT DISTINCT l.named FROM publishes p JOIN lacks l ON l.child = p.node WHERE p.id = ?"
        return [cid_from_bytes(raw) for (raw,) in self._database.execute(query, (id,))]

    def waiting(self, id: bytes) -> list[Cid]:
        """Return the publishes of an id that are here and not in its order, ascending."""
        query = "SELECT n.cid FROM publishes p JOIN nodes n USING (node) WHERE p.id = ? AND p.in_order = 0"
        return sorted(cid_from_bytes(raw) for (raw,) in self._database.execute(query, (id,)))
