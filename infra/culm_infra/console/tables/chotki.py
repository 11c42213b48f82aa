"""Tables of Chotki: replicas with their vectors and owners, and sessions with peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from culm_infra.console.tables import (
    BadRequest,
    ConsoleTable,
    Detail,
    DetailField,
    DetailSection,
    NotFound,
    TableContext,
    TablePage,
    TableRow,
    TableSpec,
)
from culm_infra.console.tables.follower import FollowedForm, combined
from culm_infra.console.tables.paging import (
    TableSources,
    columns,
    cursor_bytes,
    fields_of,
    hex_range,
    hex_search,
    key_bytes,
    page_of,
)
from culm_infra.console.tables.scan import RunningScan, newest
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id
from culm_models.chotki.packets.handshake import trace_pair
from culm_topics.chotki.operations import OVER, SESSIONS_TOPIC, VECTORS_TOPIC, Lag, VectorTable
from culm_topics.chotki.records import (
    SessionRecord,
    SourceRecord,
    VectorRecord,
    source_key,
    source_partition,
    split_session_key,
    split_source_key,
)
from culm_topics.chotki.sources import FREE, SOURCES_TOPIC, takes_effect
from culm_topics.readers.batch import TopicMessage

_ABOVE_SOURCES: Final = b"\xff" * 9
_ABOVE_SESSIONS: Final = b"\xff" * 41
_SHOWN: Final = 200
_SHOWN_PACKETS: Final = 20
_SHOWN_ENTRIES: Final = 5
_NOTHING: Final = "no replica has reported a vector yet, and no source was allocated"


def tables(context: TableContext) -> Sequence[ConsoleTable]:
    """Open the tables."""
    sources = TableSources.of(context)
    return ReplicasTable(sources), SessionsTable(sources)


def _check_vector(key: bytes, value: bytes) -> None:
    if key != GLOBAL_VECTOR_KEY:
        split_source_key(key)
    if value:
        VectorRecord.decode(value)


def _check_session(key: bytes, value: bytes) -> None:
    split_session_key(key)
    SessionRecord.decode(value)


def _check_source(key: bytes, value: bytes) -> None:
    split_source_key(key)
    SourceRecord.decode(value)


def _replaces_source(holder: bytes | None, value: bytes) -> bool:
    former = None if holder is None else SourceRecord.decode(holder)
    return takes_effect(former, SourceRecord.decode(value))


VECTORS: Final = FollowedForm(VECTORS_TOPIC, _check_vector)
SESSIONS: Final = FollowedForm(SESSIONS_TOPIC, _check_session)
SOURCES: Final = FollowedForm(SOURCES_TOPIC, _check_source, _replaces_source)


class ReplicasTable:
    """Replicas by their sources: those that have reported a vector, and those that own a source."""

    spec = TableSpec(
        "chotki-replicas",
        "chotki",
        "Replicas",
        "Every replica by its source: what it holds, how many packets it is missing of those that the "
        "deployment holds, and the owner of its source.",
        columns(
            "source id Source",
            "behind count Packets behind",
            "sources_behind count Sources behind",
            "sources count Sources held",
            "vector list Vector",
            "owner text Owner",
            "state state State",
            "time_ms time Reported",
        ),
        "start of a source, as 16 hex digits or without leading zeros",
    )

    def __init__(self, sources: TableSources) -> None:
        self._sources = sources
        self._topics = tuple(sources.follow(form) for form in (VECTORS, SOURCES))
        self._vectors, self._holders = (topic.records for topic in self._topics)
        self._session_topic = sources.follow(SESSIONS)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return replicas after the cursor."""
        extents = [topic.extent() for topic in self._topics]
        low = cursor_bytes(cursor) + b"\x00" if cursor else b""
        keys = self._keys(low, _ABOVE_SOURCES, search, limit + 1)
        table = self._table(keys[:limit])
        rows = [self._row(split_source_key(key), table) for key in keys[:limit]]
        note = None if rows or cursor or search else _NOTHING
        state = combined(extents, note)
        return TablePage(
            rows,
            rows[-1].key if len(keys) > limit else None,
            None if search else self._count(),
            state.complete,
            state.note,
            state.as_of_ms,
        )

    def _keys(self, low: bytes, high: bytes, search: str, limit: int) -> list[bytes]:
        """Return the next sources: of replicas and of owners, each once."""
        digits = hex_search(search, "a source")
        if len(digits) > 16:
            raise BadRequest(f"{search[:80]!r} is too long: a source has at most 16 hex digits")
        if not digits:
            ranges = [(low, high)]
        else:
            # A source is written without leading zeros: its digits may start at any place after them.
            spans = (hex_range(b"", "0" * zeros + digits) for zeros in range(17 - len(digits)))
            ranges = [(max(low, start), min(high, end)) for start, end in spans]
        keys = {
            key
            for records in (self._vectors, self._holders)
            for start, end in ranges
            for key in records.keys(start, end, limit=limit + 1)  # the deployment's vector may be there
            if len(key) == 8
        }
        return sorted(keys)[:limit]

    def _count(self) -> int:
        own = self._vectors.keys(b"", _ABOVE_SOURCES)
        return len({key for key in (*own, *self._holders.keys(b"", _ABOVE_SOURCES)) if len(key) == 8})

    def _table(self, keys: Sequence[bytes]) -> VectorTable:
        """Decode the vector of the deployment and those of some replicas."""
        table = VectorTable()
        for key in (GLOBAL_VECTOR_KEY, *keys):
            if (value := self._vectors.get(key)) is not None:
                table.take(TopicMessage(key, value, 0, 0, 0))
        return table

    def _row(self, src: int, table: VectorTable) -> TableRow:
        reported = table.peers.get(src)
        own = {} if table.own is None else table.own.vector
        lag = Lag(0, 0) if reported is None else table.lag(src, own)
        value = self._holders.get(source_key(src))
        holder = None if value is None else SourceRecord.decode(value)
        cells = {
            "source": f"{src:x}",
            "behind": None if reported is None else lag.behind,
            "sources_behind": None if reported is None else lag.sources,
            "sources": None if reported is None else len(reported.vector),
            "vector": [] if reported is None else _vector(reported.vector),
            "owner": None if holder is None else holder.owner,
            "state": _owned(holder),
            "time_ms": None if reported is None else reported.time_ms,
        }
        return TableRow(source_key(src).hex(), cells, 1 if lag.behind else 0)

    def detail(self, key: str) -> Detail:
        """Return a replica: its lag by source, its sessions, and the newest packets of its source."""
        raw = key_bytes(key, 8)
        src = split_source_key(raw)
        extents = [topic.extent() for topic in self._topics]
        if self._vectors.get(raw) is None and self._holders.get(raw) is None:
            raise NotFound(f"no replica has the source {src:x}")
        table = self._table([raw])
        row = self._row(src, table)
        own = {} if table.own is None else table.own.vector
        reported = table.peers.get(src)
        lags = {} if reported is None else table.lag_by_source(src, own)
        with self._sources.scans.open() as scan:
            sessions, sessions_note = self._sessions_of(src, scan)
            packets = newest(
                scan,
                self._sources.kafka,
                "chotki.packets",
                lambda count: source_partition(src, count),
                raw,
                _SHOWN_PACKETS,
            )
        held = {} if reported is None else reported.vector
        missing = [
            [f"{source:x}", _id(source, held.get(source)), _id(source, own.get(source)), count]
            for source, count in sorted(lags.items(), key=lambda item: -item[1])[:_SHOWN]
        ]
        state = combined(extents)
        return Detail(
            f"replica {src:x}",
            fields_of(self.spec, row.cells),
            (
                DetailSection(
                    "Behind, by source",
                    columns(
                        "source id Source",
                        "holds id Holds",
                        "own id Deployment holds",
                        "behind count Packets behind",
                    ),
                    missing,
                    state.note or (f"the {_SHOWN} with the largest lag" if len(lags) > _SHOWN else None),
                ),
                DetailSection("Sessions", SessionsTable.spec.columns, sessions, sessions_note),
                DetailSection(
                    "Newest packets of its source",
                    columns("time time Stored", "bytes bytes Record", "offset text Offset"),
                    [
                        [message.timestamp_ms, len(message.value), f"{message.partition}:{message.offset}"]
                        for message in packets.messages
                    ],
                    packets.note,
                ),
            ),
            scan.result(),
        )

    def _sessions_of(self, src: int, scan: RunningScan) -> tuple[list[list[Any]], str | None]:
        """Return the latest sessions of a replica. They are found by decoding all sessions."""
        extent = self._session_topic.extent()
        found: list[tuple[int, list[Any]]] = []
        after, note = b"", None
        while rows := self._session_topic.records.select(after, _ABOVE_SESSIONS, limit=500):
            if not scan.goes_on:
                note = "not all sessions were searched in this time"
                break
            for key, value in rows:
                record = SessionRecord.decode(value)
                scan.records += 1
                if record.peer == src:
                    cells = _session_cells(key, record)
                    found.append(
                        (record.time_ms, [cells[column.name] for column in SessionsTable.spec.columns])
                    )
            after = rows[-1][0] + b"\x00"
        found.sort(key=lambda row: -row[0])
        if len(found) > _SHOWN:
            note = note or f"the latest {_SHOWN} of {len(found):,}"
        return [cells for _, cells in found[:_SHOWN]], combined([extent], note).note


class SessionsTable:
    """Sessions of the last week, by edge."""

    spec = TableSpec(
        "chotki-sessions",
        "chotki",
        "Sessions",
        "Every session with a replica in the last seven days: its state, its traffic, and why it ended.",
        columns(
            "edge id Edge",
            "session count Session",
            "peer id Replica",
            "address text Address",
            "state state State",
            "traces text Traces",
            "bytes_in bytes Received",
            "bytes_out bytes Sent",
            "code text Code",
            "reason text Reason",
            "time_ms time Reported",
        ),
        "start of an edge's id",
    )

    def __init__(self, sources: TableSources) -> None:
        self._scans = sources.scans
        self._topic = sources.follow(SESSIONS)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return sessions after the cursor."""
        digits = hex_search(search, "an edge's id")
        note = "no session in the last seven days"
        return page_of(self._topic, b"", _session_row, cursor, limit, digits=digits, if_empty=note)

    def detail(self, key: str) -> Detail:
        """Return a session with its diffs and open syncs."""
        raw = key_bytes(key, 40)
        extent = self._topic.extent()
        value = self._topic.records.get(raw)
        if value is None:
            raise NotFound(f"there is no session {key[:100]}")
        record = SessionRecord.decode(value)
        row = _session_row(raw, value)
        diffs = [
            [name, diff.blocks_done, diff.blocks_total, diff.bytes_done, diff.bytes_total]
            for name, diff in (("received", record.received), ("sent", record.sent))
        ]
        syncs = [[str(Id(sync.src, sync.pro)), sync.age_ms, sync.bytes] for sync in record.open_syncs]
        return Detail(
            f"session {row.cells['session']} of edge {row.cells['edge'][:16]}…",
            [
                *fields_of(self.spec, row.cells),
                DetailField("Pings", record.pings, "count"),
                DetailField("Pongs", record.pongs, "count"),
            ],
            (
                DetailSection(
                    "Diffs at its beginning",
                    columns(
                        "diff text Diff",
                        "blocks_done count Blocks",
                        "blocks_total count Of",
                        "bytes_done bytes Bytes",
                        "bytes_total bytes Of",
                    ),
                    diffs,
                    combined([extent]).note,
                ),
                DetailSection(
                    "Open syncs", columns("t id T", "age_ms count Age (ms)", "bytes bytes Bytes"), syncs
                ),
            ),
            self._scans.without_reading(),
        )


def _owned(holder: SourceRecord | None) -> str:
    if holder is None:
        return "not allocated here"
    return "in use" if holder.state == "allocated" and holder.run != FREE else holder.state


def _vector(vector: Mapping[int, int]) -> list[str]:
    shown = [str(Id(*entry)) for entry in sorted(vector.items())[:_SHOWN_ENTRIES]]
    more = len(vector) - _SHOWN_ENTRIES
    return [*shown, f"and {more:,} more"] if more > 0 else shown


def _id(src: int, pro: int | None) -> str | None:
    return None if pro is None else str(Id(src, pro))


def _session_row(key: bytes, value: bytes) -> TableRow:
    record = SessionRecord.decode(value)
    return TableRow(key.hex(), _session_cells(key, record), 2 if record.code else 0)


def _session_cells(key: bytes, record: SessionRecord) -> dict[str, Any]:
    edge, session = split_session_key(key)
    return {
        "edge": edge.hex(),
        "session": session,
        "peer": f"{record.peer:x}" if record.peer else None,
        "address": record.address,
        "state": "over" if record.state == OVER else record.state,
        "traces": trace_pair(record.trace, record.peer_trace),
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "code": record.code or None,
        "reason": record.reason or None,
        "time_ms": record.time_ms,
    }
