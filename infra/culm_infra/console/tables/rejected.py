"""Table of refused data: the newest records of `rejected`, read by their offsets when they are asked for."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
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
from culm_infra.console.tables.paging import TableSources, columns, fields_of
from culm_infra.console.tables.scan import reading_back
from culm_infra.errors import InfraError
from culm_infra.rejections.decoded import decoded_forms
from culm_infra.rejections.records import BYTES, TOPIC, Rejection, rejections_at
from culm_topics.errors import KafkaFailure, RecordError, TopicsError
from culm_topics.readers.batch import TopicMessage

_SEARCHED: Final = 20_000
"""Number of the newest records among which a search looks."""
_PLACE: Final = re.compile("([0-9]{1,9}):([0-9]{1,18})")
_SHOWN_BYTES: Final = 4_096


def tables(context: TableContext) -> Sequence[ConsoleTable]:
    """Open the table."""
    return (RejectedTable(TableSources.of(context)),)


class RejectedTable:
    """Refused data, the newest first."""

    spec = TableSpec(
        "rejected",
        "all",
        "Rejected",
        "The newest refused data with its code, where it came from, and the proof if there is one.",
        columns(
            "time time Time",
            "code text Code",
            "protocol text Protocol",
            "origin text Origin",
            "peer id Peer",
            "key id Key",
            "proof text Proof",
            "detail text Detail",
        ),
        "part of a code, or the start of a topic, protocol, peer or key",
    )

    def __init__(self, sources: TableSources) -> None:
        self._sources = sources
        self._prefix = sources.kafka.prefix

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return the newest records before the cursor, which is an offset."""
        if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
            raise BadRequest("the cursor is not one of this table's")
        now_ms = time.time_ns() // 1_000_000
        text = search.lower()
        rows: list[TableRow] = []
        notes: list[str] = []
        try:
            with self._sources.scans.open() as scan, reading_back(scan, self._sources.kafka, TOPIC) as back:
                back.reader.count()  # tells whether there is such a topic
                low, end = back.reader.range_of(0)
                before = min(end, int(cursor)) if cursor else end
                floor = max(low, end - _SEARCHED) if text else low
                for message in back.messages(0, floor, before, limit if not text else 1_000):
                    row = self._row(message)
                    if not text or _matches(row, text):
                        rows.append(row)
                    before = message.offset
                    if len(rows) == limit:
                        break
                else:
                    before = floor if scan.complete else before
        except KafkaFailure as error:
            if error.passes:
                raise
            return TablePage((), None, None, False, str(error), now_ms)
        except TopicsError as error:
            return TablePage((), None, None, False, str(error), now_ms)
        if text and floor > low:
            notes.append(f"the newest {_SEARCHED:,} of {end - low:,} records are searched")
        if not scan.complete:
            notes.append(f"not all records were read in {self._sources.scans.limit_s:g} s")
        if end == low:
            notes.append("nothing was refused")
        return TablePage(
            rows,
            str(before) if before > floor else None,
            None if text else end - low,
            scan.complete and not (text and floor > low),
            "; ".join(notes) or None,
            now_ms,
        )

    def _row(self, message: TopicMessage) -> TableRow:
        key = f"{message.partition}:{message.offset}"
        try:
            rejection = Rejection.read(message, self._prefix)
        except RecordError as error:
            cells: dict[str, Any] = dict.fromkeys(column.name for column in self.spec.columns)
            cells |= {"time": message.timestamp_ms, "code": "malformed", "detail": str(error)}
            return TableRow(key, cells, 2)
        return TableRow(key, _cells(rejection), 1)

    def detail(self, key: str) -> Detail:
        """Return a record whole, with the refused bytes, what they decode to, and the proof of a fork."""
        place = _PLACE.fullmatch(key)
        if place is None:
            raise NotFound(f"there is no record {key[:80]!r}: a record is PARTITION:OFFSET, such as 0:17")
        where = int(place[1]), int(place[2])
        with self._sources.scans.open() as scan:
            try:
                (rejection,) = rejections_at(self._sources.kafka, [where])
            except InfraError as error:
                raise NotFound(str(error)) from error
            except RecordError as error:
                raise NotFound(f"the record {key} is malformed: {error}") from error
            scan.records += 1
        record, source = rejection.record, rejection.record.source
        fields = [DetailField("Record", rejection.place)]
        fields += fields_of(self.spec, _cells(rejection))
        fields += [
            DetailField(
                "Source", None if source is None else f"{source[0]} partition {source[1]} offset {source[2]}"
            ),
            DetailField("Log", rejection.log),
            DetailField("Number", record.seq_num, "count"),
        ]
        titles = {"entry": "Refused bytes", "operation": "Operation", "first": "Entry that is kept"}
        sections = [
            DetailSection(
                titles[name], columns("bytes bytes Size", "hex text Hex"), [[len(data), _hex(data)]]
            )
            for name in BYTES
            if (data := getattr(record, name)) is not None
        ]
        sections += [
            DetailSection(
                f"{titles[name]} as {form}",
                columns("name text Name", "value text Value"),
                [[field, _plain(value)] for field, value in _items(decoded)],
            )
            for name, forms in decoded_forms(rejection).items()
            for form, decoded in forms.items()
        ]
        return Detail(f"{record.code} ({rejection.place})", fields, sections, scan.result())


def _cells(rejection: Rejection) -> dict[str, Any]:
    record = rejection.record
    proof = None
    if record.entry is not None and record.first is not None:
        proof = f"two entries, {len(record.first):,} and {len(record.entry):,} bytes"
    return {
        "time": rejection.timestamp_ms,
        "code": record.code,
        "protocol": rejection.protocol,
        "origin": rejection.topic or "sent by a peer",
        "peer": None if record.brought_by is None else record.brought_by.hex(),
        "key": rejection.key.hex() or None,
        "proof": proof,
        "detail": record.detail,
    }


def _matches(row: TableRow, text: str) -> bool:
    cells = row.cells
    if text in (cells["code"] or ""):
        return True
    names = ("origin", "protocol", "peer", "key")
    return any(cells[name] is not None and cells[name].lower().startswith(text) for name in names)


def _hex(data: bytes) -> str:
    more = len(data) - _SHOWN_BYTES
    return data[:_SHOWN_BYTES].hex() + (f"… and {more:,} bytes more" if more > 0 else "")


def _items(decoded: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(decoded, dict):
        yield from ((str(name), value) for name, value in decoded.items())
    else:
        yield "value", decoded


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 2 * _SHOWN_BYTES else f"{text[: 2 * _SHOWN_BYTES]}…"
