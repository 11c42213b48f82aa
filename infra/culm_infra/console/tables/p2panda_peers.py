"""Table of p2panda's peers: what they announce, and how far they are behind."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from culm_infra.console.tables import (
    Detail,
    DetailField,
    DetailSection,
    NotFound,
    TablePage,
    TableRow,
    TableSpec,
)
from culm_infra.console.tables.blocks import BLOCKS, NAME_AT, VECTORS, BlockRecords, Damage
from culm_infra.console.tables.follower import FollowedForm, combined
from culm_infra.console.tables.packed import above
from culm_infra.console.tables.paging import (
    TableSources,
    columns,
    cursor_bytes,
    hex_search,
    key_bytes,
)
from culm_topics.logs.block_lag import BlockLag, height_of, lags_in_block, rows_of
from culm_topics.logs.blocks import Block
from culm_topics.logs.records import BlockKind
from culm_topics.p2panda.announcements import ANNOUNCEMENTS_TOPIC, PeerAnnouncement
from culm_topics.records import PEER_ID_SIZE, check_peer_key, split_log_key

_PEERS_SECONDS: Final = 2.0
_SHOWN_LOGS: Final = 200


def _check_announcement(key: bytes, value: bytes) -> None:
    check_peer_key(key)
    if value:
        PeerAnnouncement.decode(value)


def _replaces(former: bytes | None, value: bytes) -> bool:
    return former is None or PeerAnnouncement.decode(value).replaces(PeerAnnouncement.decode(former))


ANNOUNCEMENTS: Final = FollowedForm(ANNOUNCEMENTS_TOPIC, _check_announcement, _replaces)


@dataclass(slots=True)
class _Lag:
    held: int = 0
    logs: int = 0
    logs_behind: int = 0
    entries_behind: int = 0

    def add(self, lag: BlockLag) -> None:
        self.logs += lag.logs_held
        self.logs_behind += lag.logs_behind
        self.entries_behind += lag.entries_behind


class PeersTable:
    """All known peers of p2panda, in the order of their ids."""

    spec = TableSpec(
        "p2panda-peers",
        "p2panda",
        "Peers",
        "Every peer that has announced schemas or holds logs, and how far it is behind in these logs.",
        columns(
            "peer id Peer",
            "schemas list Announces",
            "offers text Offers",
            "logs count Logs held",
            "logs_behind count Logs behind",
            "entries_behind count Entries behind",
            "state state State",
        ),
        "start of a peer's id",
    )

    def __init__(self, sources: TableSources) -> None:
        self._sources = sources
        self._topics = tuple(sources.follow(form) for form in (BLOCKS, VECTORS, ANNOUNCEMENTS))
        self._blocks, self._vectors = BlockRecords(self._topics[0]), BlockRecords(self._topics[1])
        self._announcements = self._topics[2].records
        self._peers: tuple[float, list[bytes]] = (-_PEERS_SECONDS, [])

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return peers after the cursor; only the blocks of these peers are compared."""
        digits = hex_search(search, "a peer's id")
        extents = [topic.extent() for topic in self._topics]
        after = cursor_bytes(cursor) if cursor else b""
        peers = self._all_peers()
        chosen = [peer for peer in peers if peer > after and peer.hex().startswith(digits)]
        damage = Damage("block-vectors")
        lags = self._lags(chosen[:limit], damage)
        rows = [self._row(peer, lags.get(peer)) for peer in chosen[:limit]]
        state = combined(extents, damage.note, None if peers else "no peer is known yet")
        return TablePage(
            rows,
            rows[-1].key if len(chosen) > limit else None,
            len(peers) if not search else len(chosen) if not cursor else None,
            state.complete,
            state.note,
            state.as_of_ms,
        )

    def _all_peers(self) -> list[bytes]:
        read_s, peers = self._peers
        if time.monotonic() - read_s > _PEERS_SECONDS:
            bits = self._vectors.block_bits()
            prefix = bytes((BlockKind.SUMMARY, bits or 0))
            vectors = self._vectors.records.distinct(prefix, above(prefix), NAME_AT)
            announced = self._announcements.keys(b"", b"\xff" * (PEER_ID_SIZE + 1))
            peers = sorted({peer for peer in (*vectors, *announced) if len(peer) == PEER_ID_SIZE})
            self._peers = time.monotonic(), peers
        return peers

    def _lags(self, peers: Sequence[bytes], damage: Damage) -> dict[bytes, _Lag]:
        lags: dict[bytes, _Lag] = defaultdict(_Lag)
        for vectors, blocks in self._compared(peers, damage):
            for vector in vectors:
                lags[vector.peer_id].held += vector.log_count
            for lag in lags_in_block(blocks, vectors):
                lags[lag.peer_id].add(lag)
        return lags

    def _compared(
        self, peers: Sequence[bytes], damage: Damage
    ) -> Iterator[tuple[Sequence[Block], Sequence[Block]]]:
        """Yield the vectors of these peers in one block, and the logs of that block by schema."""
        bits = self._vectors.block_bits()
        if bits is None or not peers:
            return
        is_comparable = bits == self._blocks.block_bits()
        for number, vectors in self._vectors.of_sets(bits, peers, damage):
            yield vectors, self._blocks.in_block(bits, number, damage) if is_comparable else ()

    def _row(self, peer: bytes, lag: _Lag | None) -> TableRow:
        value = self._announcements.get(peer)
        announced = None if value is None else PeerAnnouncement.decode(value)
        cells: dict[str, Any] = {
            "peer": peer.hex(),
            "schemas": [] if announced is None else list(announced.schema_ids),
            "offers": _offers(announced),
            "logs": 0 if lag is None else lag.held,
            "logs_behind": 0 if lag is None else lag.logs_behind,
            "entries_behind": 0 if lag is None else lag.entries_behind,
            "state": _state(lag),
        }
        return TableRow(peer.hex(), cells, 1 if lag is not None and lag.entries_behind else 0)

    def detail(self, key: str) -> Detail:
        """Return a peer: its announcement, its lag by schema, and the logs in which it is behind."""
        peer = key_bytes(key, PEER_ID_SIZE)
        extents = [topic.extent() for topic in self._topics]
        if peer not in self._all_peers():
            raise NotFound(f"no peer has the id {key[:80]}")
        damage = Damage("block-vectors")
        by_schema: dict[str, _Lag] = defaultdict(_Lag)
        with self._sources.scans.open() as scan:
            total, behind = _Lag(), list[list[Any]]()
            for vectors, blocks in self._compared([peer], damage):
                total.held += sum(vector.log_count for vector in vectors)
                for lag in lags_in_block(blocks, vectors):
                    total.add(lag)
                    by_schema[lag.schema_id].add(lag)
                behind = heapq.nlargest(_SHOWN_LOGS, (*behind, *_behind(vectors, blocks)), key=_by_lag)
            scan.records += sum(lag.logs for lag in by_schema.values())
        value = self._announcements.get(peer)
        announced = None if value is None else PeerAnnouncement.decode(value)
        lag_columns = columns(
            "schema text Schema",
            "logs count Logs held",
            "logs_behind count Logs behind",
            "entries_behind count Entries behind",
        )
        state = combined(extents, damage.note)
        return Detail(
            f"peer {peer.hex()[:16]}…",
            (
                DetailField("Peer", peer.hex(), "id"),
                DetailField("Announces", [] if announced is None else list(announced.schema_ids), "list"),
                DetailField("Offers", _offers(announced)),
                DetailField("Logs held", total.held, "count"),
                DetailField("Entries behind", total.entries_behind, "count"),
                DetailField("State", _state(total), "state"),
            ),
            (
                DetailSection(
                    "By schema",
                    lag_columns,
                    [
                        [schema, lag.logs, lag.logs_behind, lag.entries_behind]
                        for schema, lag in sorted(by_schema.items())
                    ],
                    state.note,
                ),
                DetailSection(
                    "Logs in which it is behind",
                    columns(
                        "author id Author",
                        "log text Log",
                        "schema text Schema",
                        "holds count Holds",
                        "height count Height",
                        "behind count Behind",
                    ),
                    behind,
                    f"the {_SHOWN_LOGS} with the largest lag" if len(behind) == _SHOWN_LOGS else None,
                ),
            ),
            scan.result(),
        )


def _behind(vectors: Sequence[Block], blocks: Sequence[Block]) -> Iterator[list[Any]]:
    """Yield the logs of a block in which a peer is behind, as rows of a section."""
    for log, holds in (row for vector in vectors for row in rows_of(vector.heights)):
        for block in blocks:
            height = height_of(block.heights, log)
            if height is not None and height > holds:
                public_key, log_id = split_log_key(log)
                yield [public_key.hex(), str(log_id), block.schema_id, holds, height, height - holds]


def _by_lag(row: list[Any]) -> int:
    return int(row[-1])


def _offers(announced: PeerAnnouncement | None) -> str | None:
    offered = None if announced is None else announced.offered
    if offered is None:
        return None
    lifts = ", ".join(offered["lifts"])
    modes = f"modes {', '.join(map(str, offered['modes']))}"
    return f"{modes}; {lifts}" if lifts else modes


def _state(lag: _Lag | None) -> str:
    if lag is None or not lag.held:
        return "holds nothing"
    return "behind" if lag.entries_behind else "up to date"
