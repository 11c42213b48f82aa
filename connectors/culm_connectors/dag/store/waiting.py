"""Named and missing nodes, as state: what a space requests, and which nodes wait for it (3.4).

A node waits for its own prior and forks, a UCAN for its proofs, a publish also for any missing proof below
it. No node waits for an origin.

A node from a peer that waits has a place. Places are limited per space, per address and per peer. If there is
none left, the holder with the most places gives up its oldest; so a stranger's orphans keep nobody out, and
after a while they no longer count. A node without a place is kept: it was acknowledged, and topics have it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.store.outcomes import DagBlockKind
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.edge.fair_turns import caller_address
from culm_models.dag.blocks.cid import Cid, cid_from_bytes

_OF_SPACE, _OF_ADDRESS, _OF_PEER = range(3)
"""Holders by which places are counted; also the order of the columns."""
_NAMED_NOT_HERE: Final = (
    "NOT EXISTS (SELECT 1 FROM refused r WHERE r.cid = l.named) AND NOT EXISTS (SELECT 1 FROM nodes n "
    f"WHERE n.cid = l.named AND (n.kind = '{DagBlockKind.PUBLISH.value}' OR EXISTS "
    "(SELECT 1 FROM places q WHERE q.space = p.space AND q.node = n.node)))"
)
_FILL: Final = (
    "INSERT OR IGNORE INTO missing SELECT p.space, l.named FROM places p "
    f"JOIN links l ON l.child = p.node WHERE {_NAMED_NOT_HERE}"
)


@dataclass(frozen=True, slots=True)
class _Claim:
    """Request for a place for a peer's node, and the nodes that leave their places once it is here.

    Each of `leaving` has space, address, peer and size.
    """

    space: bytes
    address: str
    peer: bytes
    size: int
    leaving: tuple[tuple[bytes, str, bytes, int], ...]


class WaitingNodes:
    """Waiting nodes and what they wait for, in one folder and inside its transaction."""

    def __init__(
        self, database: sqlite3.Connection, settings: DagFolderSettings, clock_s: Callable[[], float]
    ) -> None:
        self._database = database
        self._settings = settings
        self._clock_s = clock_s

    # Requests of a space.

    def missing(self, space: bytes, limit: int) -> list[Cid]:
        """Return up to `limit` CIDs that the nodes of a space name and that are missing in it, ascending."""
        query = "SELECT named FROM missing WHERE space = ? LIMIT ?"
        return sorted(cid_from_bytes(raw) for (raw,) in self._database.execute(query, (space, limit)))

    def placed(self, space: bytes, row: int, raw: bytes, *, is_publish: bool) -> None:
        """Record that a node is in a space; a publish counts as in every space."""
        if is_publish:
            self._database.execute("DELETE FROM missing WHERE named = ?", (raw,))
        else:
            self._database.execute("DELETE FROM missing WHERE space = ? AND named = ?", (space, raw))
        self._database.execute(f"{_FILL} AND p.space = ? AND p.node = ?", (space, row))

    # Waiting nodes.

    def make_capacity(self, cid: Cid, space: bytes | None, peer: bytes, size: int) -> bool:
        """Return whether a peer's node may wait; other nodes may have to give up their places for it.

        Nodes that wait only for this node leave their places, so a chain that comes from its end needs one
        place.
        """
        claim = _Claim(space or b"", caller_address(), peer, size, tuple(self._freed_by(cid)))
        if self._lacking(claim) is None:
            return True
        self.drop_expired()
        while (lacking := self._lacking(claim)) is not None:
            of, measure = lacking
            if of == _OF_PEER or not self._give_up(claim, of, measure):
                return False
        return True

    def _lacking(self, claim: _Claim) -> tuple[int, str] | None:
        """Return whose limit a claim exceeds (peer, address or space), and by which measure; else None."""
        settings = self._settings
        if self._left(claim, _OF_PEER, claim.peer)[0] >= settings.max_waiting_nodes_per_peer:
            return _OF_PEER, "count(*)"
        if self._left(claim, _OF_ADDRESS, claim.address)[0] >= settings.max_waiting_nodes_per_address:
            return _OF_ADDRESS, "count(*)"
        nodes, octets = self._left(claim, _OF_SPACE, claim.space)
        if nodes >= settings.max_waiting_nodes:
            return _OF_SPACE, "count(*)"
        if octets + claim.size > settings.max_waiting_bytes:
            return _OF_SPACE, "sum(size)"
        return None

    def _left(self, claim: _Claim, of: int, who: bytes | str) -> tuple[int, int]:
        nodes, octets = self._count(of, who)
        sizes = [leaving_node[3] for leaving_node in claim.leaving if leaving_node[of] == who]
        return nodes - len(sizes), octets - sum(sizes)

    def _give_up(self, claim: _Claim, of: int, measure: str) -> bool:
        """Take the oldest place of the holder with most, unless that has no more than the claiming holder.

        In a space the holders are addresses, and at an address they are peers. Returns whether a place was
        taken.
        """
        among, holders = ("space", "address") if of == _OF_SPACE else ("address", "peer")
        value, own = getattr(claim, among), getattr(claim, holders)
        query = f"SELECT {holders}, {measure} FROM waiting WHERE {among} = ? GROUP BY 1"
        used_by_holder = dict(self._database.execute(query, (value,)).fetchall())
        holder = max(used_by_holder, key=lambda name: (used_by_holder[name], name), default=own)
        if used_by_holder.get(holder, 0) <= used_by_holder.get(own, 0):
            return False
        query = f"SELECT node FROM waiting WHERE {among} = ? AND {holders} = ? ORDER BY since, node LIMIT 1"
        self._leave(row for (row,) in self._database.execute(query, (value, holder)).fetchall())
        return True

    def drop_expired(self) -> None:
        """Take the places of nodes that have waited for too long."""
        query = "SELECT node FROM waiting WHERE since <= ?"
        before = int(self._clock_s()) - self._settings.waiting_expires_s
        self._leave(row for (row,) in self._database.execute(query, (before,)).fetchall())

    def counts(self, space: bytes) -> tuple[int, int]:
        """Return how many nodes of a space wait, and their bytes."""
        return self._count(_OF_SPACE, space)

    def of_node(self, row: int) -> list[Cid]:
        """Return the CIDs that a node waits for."""
        query = "SELECT named FROM lacks WHERE child = ?"
        return [cid_from_bytes(raw) for (raw,) in self._database.execute(query, (row,))]

    def enter(
        self, row: int, space: bytes | None, peer: bytes | None, size: int, needs: Iterable[Cid]
    ) -> None:
        """Record that a new node waits for these; without any, it does not wait.

        A node from no particular peer, such as one from a topic, takes up no place.
        """
        rows = [(need.raw, row) for need in needs]
        self._database.executemany("INSERT OR IGNORE INTO lacks VALUES (?, ?)", rows)
        if rows and peer is not None:
            address = caller_address()
            self._database.execute(
                "INSERT INTO waiting VALUES (?, ?, ?, ?, ?, ?)",
                (row, space or b"", address, peer, size, int(self._clock_s())),
            )
            self._add(space or b"", address, peer, 1, size)

    def waits_for(self, row: int, needs: Iterable[Cid]) -> None:
        """Record that a node waits for these, and for nothing else."""
        rows = [(need.raw, row) for need in needs]
        self._database.execute("DELETE FROM lacks WHERE child = ?", (row,))
        self._database.executemany("INSERT OR IGNORE INTO lacks VALUES (?, ?)", rows)
        if not rows:
            self._leave([row])

    def settled(self, raw: bytes) -> None:
        """Stop waiting for a node that is here, or was finally refused."""
        children = self._database.execute("SELECT child FROM lacks WHERE named = ?", (raw,)).fetchall()
        self._database.execute("DELETE FROM lacks WHERE named = ?", (raw,))
        query = "SELECT 1 FROM lacks WHERE child = ?"
        self._leave([row for (row,) in children if self._database.execute(query, (row,)).fetchone() is None])

    def refused(self, raw: bytes) -> None:
        """Stop requesting a node that was finally refused, and stop waiting for it."""
        self._database.execute("DELETE FROM missing WHERE named = ?", (raw,))
        self.settled(raw)

    def gone(self, raw: bytes) -> None:
        """Request a node again whose block or refusal is gone; the nodes that build on it wait again."""
        self._database.execute(f"{_FILL} AND l.named = ?", (raw,))
        query = "INSERT OR IGNORE INTO lacks SELECT named, child FROM links WHERE named = ? AND how = 0"
        self._database.execute(query, (raw,))

    def deleted(self, row: int, named: list[tuple[bytes]], spaces: list[tuple[bytes]]) -> None:
        """Remove a deleted node: CIDs that it alone named in its spaces are not requested any more."""
        self._database.execute("DELETE FROM lacks WHERE child = ?", (row,))
        self._leave([row])
        query = (
            "DELETE FROM missing WHERE space = ?1 AND named = ?2 AND NOT EXISTS (SELECT 1 FROM links l "
            "JOIN places p ON p.node = l.child AND p.space = ?1 WHERE l.named = ?2)"
        )
        pairs = [(space, raw) for (space,) in spaces for (raw,) in named]
        self._database.executemany(query, pairs)

    def _freed_by(self, cid: Cid) -> list[tuple[bytes, str, bytes, int]]:
        """Return space, address, peer and size of the nodes that wait for this alone."""
        query = (
            "SELECT w.space, w.address, w.peer, w.size FROM lacks l JOIN waiting w ON w.node = l.child "
            "WHERE l.named = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM lacks m WHERE m.child = l.child AND m.named != ?1)"
        )
        return self._database.execute(query, (cid.raw,)).fetchall()

    def _leave(self, rows: Iterable[int]) -> None:
        for row in rows:
            query = "SELECT space, address, peer, size FROM waiting WHERE node = ?"
            waiting = self._database.execute(query, (row,)).fetchone()
            if waiting is not None:
                space, address, peer, size = waiting
                self._database.execute("DELETE FROM waiting WHERE node = ?", (row,))
                self._add(space, address, peer, -1, -size)

    def _count(self, of: int, who: bytes | str) -> tuple[int, int]:
        query = "SELECT nodes, bytes FROM waiting_counts WHERE of = ? AND who = ?"
        counts = self._database.execute(query, (of, who)).fetchone()
        return (0, 0) if counts is None else (counts[0], counts[1])

    def _add(self, space: bytes, address: str, peer: bytes, nodes: int, octets: int) -> None:
        for of, who in ((_OF_SPACE, space), (_OF_ADDRESS, address), (_OF_PEER, peer)):
            self._database.execute(
                "INSERT INTO waiting_counts VALUES (?1, ?2, ?3, ?4) ON CONFLICT (of, who) DO UPDATE "
                "SET nodes = nodes + ?3, bytes = bytes + ?4",
                (of, who, nodes, octets),
            )
            if nodes < 0:
                self._database.execute(
                    "DELETE FROM waiting_counts WHERE of = ? AND who = ? AND nodes = 0", (of, who)
                )


def fill_waiting(database: sqlite3.Connection) -> None:
    """Compute this state, in a folder of a version that kept none."""
    database.execute(_FILL)
    database.execute(
        "INSERT INTO lacks SELECT DISTINCT l.named, l.child FROM links l JOIN nodes c ON c.node = l.child "
        "LEFT JOIN publishes q ON q.node = l.child WHERE ifnull(q.is_authorised, 0) = 0 "
        "AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.cid = l.named) "
        "AND NOT EXISTS (SELECT 1 FROM refused r WHERE r.cid = l.named)"
    )
