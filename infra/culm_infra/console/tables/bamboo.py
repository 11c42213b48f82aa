"""Table of Bamboo: the logs that the deployment holds, with their ranges of entries and payloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from culm_infra.console.tables import (
    ConsoleTable,
    Detail,
    DetailSection,
    NotFound,
    TableContext,
    TablePage,
    TableRow,
    TableSpec,
)
from culm_infra.console.tables.follower import FollowedForm, combined
from culm_infra.console.tables.log_entries import entries_section
from culm_infra.console.tables.packed import Match, above
from culm_infra.console.tables.paging import TableSources, columns, fields_of, hex_search, key_bytes, page_of
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import RecordError
from culm_topics.logs.records import CoverageRecord, Runs, split_coverage_key
from culm_topics.records import HEIGHTS_PEER_ID, PEER_ID_SIZE, split_flavoured_log_key

_SHOWN_RUNS: Final = 5
_SHOWN_RUNS_OF_ONE: Final = 200
_SHOWN_PEERS: Final = 200
_END: Final = above(HEIGHTS_PEER_ID)
_NOTHING: Final = "no coverage yet: `culm job run coverage` writes it"


def tables(context: TableContext) -> Sequence[ConsoleTable]:
    """Open the tables."""
    return (CoverageTable(TableSources.of(context)),)


def _check(key: bytes, value: bytes) -> None:
    split_coverage_key(key)
    if value:
        CoverageRecord.decode(value)


COVERAGE: Final = FollowedForm("coverage", _check)


class CoverageTable:
    """The logs of the deployment, in the order of their keys."""

    spec = TableSpec(
        "bamboo-logs",
        "bamboo",
        "Coverage",
        "Every log with the ranges of entries and payloads that the deployment holds, and what it proves.",
        columns(
            "author id Author",
            "log_id text Log",
            "flavour text Flavour",
            "entries text Entries",
            "entry_count count Held",
            "payloads text Payloads",
            "gaps count Gaps",
            "provable count Provable",
            "state state State",
        ),
        "start of an author's key",
    )

    def __init__(self, sources: TableSources) -> None:
        self._sources = sources
        self._topic = sources.follow(COVERAGE)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return logs after the cursor."""
        digits = hex_search(search, "an author's key")
        # The rows of the deployment are those under the peer id of zeros.
        return page_of(self._topic, HEIGHTS_PEER_ID, _row, cursor, limit, digits=digits, if_empty=_NOTHING)

    def detail(self, key: str) -> Detail:
        """Return a log: all ranges, what each peer holds, and its newest entries."""
        log = key_bytes(key)
        try:
            flavour, (public_key, log_id) = split_flavoured_log_key(log)
        except RecordError as error:
            raise NotFound(f"there is no log {key[:100]!r}: {error}") from error
        extent = self._topic.extent()
        value = self._topic.records.get(HEIGHTS_PEER_ID + log)
        if value is None:
            raise NotFound(f"there is no log {public_key.hex()}/{log_id} ({flavour.name}) in coverage")
        record = CoverageRecord.decode(value)
        with self._sources.scans.open() as scan:
            peers = self._topic.records.select(
                _END, b"\xff" * 80, limit=_SHOWN_PEERS + 1, match=Match(log, PEER_ID_SIZE)
            )
            scan.records += len(peers)
            entries = entries_section(scan, self._sources.kafka, log)
        lists = {"Entries": record.entries, "Payloads": record.payloads, "Provable entries": record.provable}
        ranges = [
            [title, str(start), str(end - 1), end - start]
            for title, runs in lists.items()
            for start, end in runs[:_SHOWN_RUNS_OF_ONE]
        ]
        is_cut = any(len(runs) > _SHOWN_RUNS_OF_ONE for runs in lists.values())
        held = [
            [peer[:PEER_ID_SIZE].hex(), *_held_by(CoverageRecord.decode(row), record)]
            for peer, row in peers[:_SHOWN_PEERS]
            if peer[PEER_ID_SIZE:] == log
        ]
        state = combined([extent])
        return Detail(
            f"log {log_id} of {public_key.hex()[:16]}… ({flavour.name})",
            fields_of(self.spec, _row(HEIGHTS_PEER_ID + log, value).cells),
            (
                DetailSection(
                    "Ranges",
                    columns("what text Held", "first text First", "last text Last", "count count Number"),
                    ranges,
                    f"of each kind the first {_SHOWN_RUNS_OF_ONE}" if is_cut else None,
                ),
                DetailSection(
                    "Peers",
                    columns(
                        "peer id Peer",
                        "entries text Entries",
                        "payloads text Payloads",
                        "missing count Missing",
                    ),
                    held,
                    state.note or (f"the first {_SHOWN_PEERS}" if len(peers) > _SHOWN_PEERS else None),
                ),
                entries,
            ),
            scan.result(),
        )


def _row(key: bytes, value: bytes) -> TableRow:
    _, flavour, log = split_coverage_key(key)
    cells = _cells(flavour, log, CoverageRecord.decode(value))
    return TableRow(key[PEER_ID_SIZE:].hex(), cells, 1 if cells["gaps"] else 0)


def _cells(flavour: HashFlavour, log: LogKey, record: CoverageRecord) -> dict[str, Any]:
    gaps = max(len(record.entries) - 1, 0) + (1 if record.entries and record.entries[0][0] > 1 else 0)
    state = "whole"
    if record.left_out:
        state = "cut off"
    elif gaps:
        state = "with gaps"
    elif _count(record.payloads) < _count(record.entries):
        state = "without some payloads"
    return {
        "author": log[0].hex(),
        "log_id": str(log[1]),
        "flavour": flavour.name,
        "entries": _runs(record.entries),
        "entry_count": _count(record.entries),
        "payloads": _runs(record.payloads),
        "gaps": gaps,
        "provable": _count(record.provable),
        "state": state,
    }


def _held_by(peer: CoverageRecord, deployment: CoverageRecord) -> list[Any]:
    missing = max(_count(deployment.entries) - _count(peer.entries), 0)
    return [_runs(peer.entries), _runs(peer.payloads), missing]


def _count(runs: Runs) -> int:
    return sum(end - start for start, end in runs)


def _runs(runs: Runs) -> str:
    shown = [str(start) if start == end - 1 else f"{start}–{end - 1}" for start, end in runs[:_SHOWN_RUNS]]
    more = len(runs) - _SHOWN_RUNS
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
