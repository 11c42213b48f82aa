"""What is named and not here, as state: what a space asks for, and which nodes wait for it (3.4).

A node waits for its own prior and forks, a UCAN for its proofs, a publish also for whatever proof is missing
below it. Nobody waits for an origin. Those that wait are counted by the space and by the peer they came from.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from culm_connectors.dag.store.outcomes import BlockKind
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_models.dag.blocks.cid import Cid, cid_from_bytes

_OF_SPACE, _OF_PEER = range(2)
_NAMED_NOT_HERE: Final = (
    "NOT EXISTS (SELECT 1 FROM refused r WHERE r.cid = l.named) AND NOT EXISTS (SELECT 1 FROM nodes n "
    f"WHERE n.cid = l.named AND (n.kind = '{BlockKind.PUBLISH.value}' OR EXISTS "
    "(SELECT 1 FROM places q WHERE q.space = p.space AND q.node = n.node)))"
)
_FILL: Final = (
    "INSERT OR IGNORE INTO missing SELECT p.space, l.named FROM places p "
    f"JOIN links l ON l.child = p.node WHERE {_NAMED_NOT_HERE}"
)


class WaitingNodes:
    """Who waits, and for what, in one folder and inside of its transaction."""

    def __init__(self, database: sqlite3.Connection, settings: DagFolderSettings) -> None:
        self._database = database
        self._settings = settings

    # What a space asks for.

    def missing(self, space: bytes, most: int) -> list[Cid]:
        """What the nodes of a space name, and what is not here in it, ascending."""
        query = "SELECT named FROM missing WHERE space = ? LIMIT ?"
        return sorted(cid_from_bytes(raw) for (raw,) in self._database.execute(query, (space, most)))

    def placed(self, space: bytes, row: int, raw: bytes, *, is_publish: bool) -> None:
        """A node is here in a space; a publish counts wherever it is asked for."""
        if is_publish:
            self._database.execute("DELETE FROM missing WHERE named = ?", (raw,))
        else:
            self._database.execute("DELETE FROM missing WHERE space = ? AND named = ?", (space, raw))
        self._database.execute(f"{_FILL} AND p.space = ? AND p.node = ?", (space, row))

    # Who waits.

    def has_room(self, cid: Cid, space: bytes | None, peer: bytes, size: int) -> bool:
        """Whether a node that a peer brings may wait.

        Those who wait for nothing but this node make room: a chain that comes from its end needs one place.
        """
        nodes, octets = self._count(_OF_SPACE, space or b"")
        of_peer, _ = self._count(_OF_PEER, peer)
        if self._fits(nodes, octets + size, of_peer):
            return True
        for other_space, other_peer, other_size in self._freed_by(cid):
            is_same = other_space == (space or b"")
            nodes, octets = nodes - is_same, octets - is_same * other_size
            of_peer -= other_peer == peer
        return self._fits(nodes, octets + size, of_peer)

    def _fits(self, nodes: int, octets: int, of_peer: int) -> bool:
        settings = self._settings
        fits = nodes < settings.waiting_nodes and octets <= settings.waiting_bytes
        return fits and of_peer < settings.peer_waiting_nodes

    def counts(self, space: bytes) -> tuple[int, int]:
        """How many nodes of a space wait, and their bytes."""
        return self._count(_OF_SPACE, space)

    def of_node(self, row: int) -> list[Cid]:
        """What a node waits for."""
        query = "SELECT named FROM lacks WHERE child = ?"
        return [cid_from_bytes(raw) for (raw,) in self._database.execute(query, (row,))]

    def enter(self, row: int, space: bytes | None, peer: bytes, size: int, needs: Iterable[Cid]) -> None:
        """A node that is new here waits for these; for none of them, it waits not."""
        rows = [(need.raw, row) for need in needs]
        if not rows:
            return
        self._database.executemany("INSERT OR IGNORE INTO lacks VALUES (?, ?)", rows)
        self._database.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", (row, space or b"", peer, size))
        self._add(space or b"", peer, 1, size)

    def waits_for(self, row: int, needs: Iterable[Cid]) -> None:
        """A node that was here waits for these, and for nothing else."""
        rows = [(need.raw, row) for need in needs]
        self._database.execute("DELETE FROM lacks WHERE child = ?", (row,))
        self._database.executemany("INSERT OR IGNORE INTO lacks VALUES (?, ?)", rows)
        if rows:
            self._enter_again(row)
        else:
            self._leave([row])

    def _enter_again(self, row: int) -> None:
        if self._database.execute("SELECT 1 FROM waiting WHERE node = ?", (row,)).fetchone() is not None:
            return
        query = (
            "SELECT length(block), (SELECT space FROM places p WHERE p.node = n.node LIMIT 1) "
            "FROM nodes n WHERE node = ?"
        )
        size, space = self._database.execute(query, (row,)).fetchone()
        self._database.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", (row, space or b"", b"", size))
        self._add(space or b"", b"", 1, size)

    def settled(self, raw: bytes) -> None:
        """A node is here, or was refused for good: nobody waits for it."""
        children = self._database.execute("SELECT child FROM lacks WHERE named = ?", (raw,)).fetchall()
        self._database.execute("DELETE FROM lacks WHERE named = ?", (raw,))
        query = "SELECT 1 FROM lacks WHERE child = ?"
        self._leave([row for (row,) in children if self._database.execute(query, (row,)).fetchone() is None])

    def refused(self, raw: bytes) -> None:
        """A node was refused for good: nobody is asked for it."""
        self._database.execute("DELETE FROM missing WHERE named = ?", (raw,))
        self.settled(raw)

    def gone(self, raw: bytes) -> None:
        """What was here, or refused, is neither: it is asked for again, and what builds on it waits."""
        self._database.execute(f"{_FILL} AND l.named = ?", (raw,))
        query = "SELECT child FROM links WHERE named = ? AND how = 0"
        for (row,) in self._database.execute(query, (raw,)).fetchall():
            self._database.execute("INSERT OR IGNORE INTO lacks VALUES (?, ?)", (raw, row))
            self._enter_again(row)

    def deleted(self, row: int, named: list[tuple[bytes]], spaces: list[tuple[bytes]]) -> None:
        """A node is gone from its spaces: what it alone has named there is asked for no more."""
        self._database.execute("DELETE FROM lacks WHERE child = ?", (row,))
        self._leave([row])
        query = (
            "DELETE FROM missing WHERE space = ?1 AND named = ?2 AND NOT EXISTS (SELECT 1 FROM links l "
            "JOIN places p ON p.node = l.child AND p.space = ?1 WHERE l.named = ?2)"
        )
        pairs = [(space, raw) for (space,) in spaces for (raw,) in named]
        self._database.executemany(query, pairs)

    def _freed_by(self, cid: Cid) -> list[tuple[bytes, bytes, int]]:
        """Space, peer and size of those who wait for this alone."""
        query = (
            "SELECT w.space, w.peer, w.size FROM lacks l JOIN waiting w ON w.node = l.child "
            "WHERE l.named = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM lacks m WHERE m.child = l.child AND m.named != ?1)"
        )
        return self._database.execute(query, (cid.raw,)).fetchall()

    def _leave(self, rows: Iterable[int]) -> None:
        for row in rows:
            query = "SELECT space, peer, size FROM waiting WHERE node = ?"
            found = self._database.execute(query, (row,)).fetchone()
            if found is not None:
                self._database.execute("DELETE FROM waiting WHERE node = ?", (row,))
                self._add(found[0], found[1], -1, -found[2])

    def _count(self, of: int, who: bytes) -> tuple[int, int]:
        if of == _OF_PEER and not who:
            return 0, 0
        query = "SELECT nodes, bytes FROM waiting_counts WHERE of = ? AND who = ?"
        found = self._database.execute(query, (of, who)).fetchone()
        return (0, 0) if found is None else (found[0], found[1])

    def _add(self, space: bytes, peer: bytes, nodes: int, octets: int) -> None:
        for of, who in ((_OF_SPACE, space), (_OF_PEER, peer)):
            self._database.execute(
                "INSERT INTO waiting_counts VALUES (?1, ?2, ?3, ?4) ON CONFLICT (of, who) DO UPDATE "
                "SET nodes = nodes + ?3, bytes = bytes + ?4",
                (of, who, nodes, octets),
            )
            self._database.execute(
                "DELETE FROM waiting_counts WHERE of = ? AND who = ? AND nodes = 0", (of, who)
            )


def fill_waiting(database: sqlite3.Connection) -> None:
    """Find out all of it, in a folder of a program that kept none."""
    database.execute(_FILL)
    database.execute(
        "INSERT INTO lacks SELECT DISTINCT l.named, l.child FROM links l JOIN nodes c ON c.node = l.child "
        "LEFT JOIN publishes q ON q.node = l.child WHERE ifnull(q.is_authorised, 0) = 0 "
        "AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.cid = l.named) "
        "AND NOT EXISTS (SELECT 1 FROM refused r WHERE r.cid = l.named)"
    )
    database.execute(
        "INSERT INTO waiting SELECT n.node, "
        "ifnull((SELECT space FROM places p WHERE p.node = n.node LIMIT 1), x''), "
        "x'', length(n.block) FROM nodes n WHERE n.node IN (SELECT child FROM lacks)"
    )
    for of, column in ((_OF_SPACE, "space"), (_OF_PEER, "peer")):
        database.execute(
            f"INSERT INTO waiting_counts SELECT {of}, {column}, count(*), sum(size) FROM waiting "
            f"GROUP BY {column}"
        )
