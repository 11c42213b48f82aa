"""Tables of p2panda: logs with their heights; `p2panda_peers` has the peers."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from culm_infra.console.tables import (
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
from culm_infra.console.tables.blocks import BLOCKS, VECTORS, BlockRecords, Damage, rows_from
from culm_infra.console.tables.follower import combined
from culm_infra.console.tables.log_entries import entries_section
from culm_infra.console.tables.p2panda_peers import PeersTable
from culm_infra.console.tables.paging import (
    TableSources,
    columns,
    cursor_bytes,
    is_hex,
    key_bytes,
    least_bytes,
)
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import decode_operation
from culm_topics.logs.block_lag import height_of
from culm_topics.logs.records import LogRecord, block_of
from culm_topics.records import LOG_KEY_SIZE, split_log_key

_LOG_NAME: Final = re.compile("([0-9a-f]{64})/([0-9]{1,20})")
_SHOWN_LOGS: Final = 200
_NOTHING: Final = "no blocks yet: `culm job run all` writes them"


def tables(context: TableContext) -> Sequence[ConsoleTable]:
    """Open the tables."""
    sources = TableSources.of(context)
    return LogsTable(sources), PeersTable(sources)


class LogsTable:
    """All replicated logs of p2panda, in the order of their keys."""

    spec = TableSpec(
        "p2panda-logs",
        "p2panda",
        "Logs",
        "Every replicated log of operations with its height: the number up to which no entry is missing.",
        columns(
            "author id Author",
            "log_id text Log",
            "schema text Schema",
            "height count Height",
            "block count Block",
        ),
        "start of an author's key, KEY/LOG_ID, or part of a schema id",
    )

    def __init__(self, sources: TableSources) -> None:
        self._sources = sources
        self._topic = sources.follow(BLOCKS)
        self._blocks = BlockRecords(self._topic)
        self._vector_topic = sources.follow(VECTORS)
        self._vectors = BlockRecords(self._vector_topic)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return logs after the cursor; only the blocks of the page are decoded."""
        extent = self._topic.extent()
        damage = Damage(extent.topic)
        bits = self._blocks.block_bits()
        if bits is None:
            state = combined([extent], _NOTHING)
            return TablePage((), None, 0, state.complete, state.note, state.as_of_ms)
        digits, schema = _log_search(search)
        start = max(least_bytes(digits, LOG_KEY_SIZE), cursor_bytes(cursor) + b"\x00" if cursor else b"")
        found = list(islice(self._rows(bits, start, digits, schema, damage), limit + 1))
        rows = [_log_row(*row) for row in found[:limit]]
        state = combined([extent], damage.note)
        return TablePage(
            rows,
            rows[-1].key if len(found) > limit else None,
            None if search else self._blocks.log_count(bits),
            state.complete,
            state.note,
            state.as_of_ms,
        )

    def _rows(
        self, bits: int, start: bytes, digits: str, schema: str, damage: Damage
    ) -> Iterator[tuple[bytes, str, int, int]]:
        wanted = (lambda name: schema in name.decode("utf-8", "replace").lower()) if schema else None
        for number in range(block_of(start, bits), 1 << bits):
            blocks = self._blocks.in_block(bits, number, damage, wanted)
            for row in heapq.merge(*(rows_from(block, start) for block in blocks)):
                if not row[0].hex().startswith(digits):
                    return
                yield row
            if digits and number >= block_of(least_bytes(digits.ljust(4, "f"), LOG_KEY_SIZE), bits):
                return

    def detail(self, key: str) -> Detail:
        """Return a log: its height, what peers hold of it, and its newest entries."""
        log = key_bytes(key, LOG_KEY_SIZE)
        self._topic.extent()
        public_key, log_id = split_log_key(log)
        damage, vector_damage = Damage("blocks"), Damage("block-vectors")
        with self._sources.scans.open() as scan:
            bits = self._blocks.block_bits()
            here = [] if bits is None else self._blocks.in_block(bits, block_of(log, bits), damage)
            heights = {
                block.schema_id: height
                for block in here
                if (height := height_of(block.heights, log)) is not None
            }
            if not heights and not damage.torn:
                raise NotFound(f"there is no log {public_key.hex()}/{log_id} in blocks")
            held = combined([self._vector_topic.extent()])
            vector_bits = self._vectors.block_bits()
            vectors = (
                []
                if vector_bits is None
                else self._vectors.in_block(vector_bits, block_of(log, vector_bits), vector_damage)
            )
            height = max(heights.values(), default=0)
            peers: list[list[Any]] = [
                [vector.peer_id.hex(), holds, max(height - holds, 0)]
                for vector in vectors
                if (holds := height_of(vector.heights, log)) is not None
            ]
            entries = entries_section(scan, self._sources.kafka, log, _action)
        notes = [held.note, vector_damage.note]
        return Detail(
            f"log {log_id} of {public_key.hex()[:16]}…",
            (
                DetailField("Author", public_key.hex(), "id"),
                DetailField("Log", str(log_id)),
                DetailField("Schema", ", ".join(heights) or damage.note),
                DetailField("Height", height, "count"),
            ),
            (
                DetailSection(
                    "Peers that hold it",
                    columns("peer id Peer", "holds count Holds", "behind count Behind"),
                    sorted(peers, key=_by_lag)[:_SHOWN_LOGS],
                    "; ".join(note for note in notes if note) or None,
                ),
                entries,
            ),
            scan.result(),
        )


def _by_lag(row: list[Any]) -> int:
    return -int(row[-1])


def _log_search(search: str) -> tuple[str, str]:
    """Return the hex digits with which log keys start, or a part of schema ids."""
    text = search.lower()
    if name := _LOG_NAME.fullmatch(text):
        return name[1] + f"{int(name[2]) & (1 << 64) - 1:016x}", ""
    if is_hex(text):
        return text, ""
    return "", text


def _log_row(log: bytes, schema_id: str, height: int, block: int) -> TableRow:
    public_key, log_id = split_log_key(log)
    cells = {
        "author": public_key.hex(),
        "log_id": str(log_id),
        "schema": schema_id,
        "height": height,
        "block": block,
    }
    return TableRow(log.hex(), cells)


def _action(record: LogRecord) -> str | None:
    if not record.schema_id:
        return None
    try:
        return str(decode_operation(record.operation).action)
    except CulmError:
        return "not an operation"
