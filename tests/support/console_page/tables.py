"""Generated tables of the console: rows of every kind of value, in pages, with details."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.console_page.documents import hexadecimal

_COLUMNS: Final = {
    "p2panda-logs": "author:id log:text height:count schema:text updated:time",
    "p2panda-peers": "peer:id edge:text logs:count seen:time state:state",
    "sds-channels": "channel:text participants:list messages:count acknowledged:count state:state",
    "chotki-replicas": "source:text name:text vector:list objects:count",
    "bamboo-logs": "author:id log:text height:count held:text bytes:bytes",
    "dag-ids": "id:id root:id tips:list published:time",
    "rejected": "time:time code:text topic:text origin:id",
}
_TITLES: Final = {
    "p2panda-logs": ("Logs", "The logs that the deployment holds, each with its height."),
    "p2panda-peers": ("Peers", "The peers whose version vectors are known."),
    "sds-channels": ("Channels", "The channels, with their participants and what is acknowledged."),
    "chotki-replicas": ("Replicas", "The replicas, with the version vector of each."),
    "bamboo-logs": ("Coverage", "The Bamboo logs, and which entries and payloads are held."),
    "dag-ids": ("Published ids", "The ids under which roots are published, with their tips."),
    "rejected": ("Rejected", "The newest refusals, each with its code, its origin and its proof."),
}


@dataclass(slots=True)
class GeneratedTable:
    """One table; rows follow from their number, so that a million of them need no memory."""

    name: str
    rows: int
    complete: bool = True
    note: str | None = None
    extra: list[dict[str, Any]] = field(default_factory=list)
    """Rows before the generated ones."""

    def spec(self) -> dict[str, Any]:
        """Return the description for `/api/tables`."""
        title, sentence = _TITLES[self.name]
        columns = [part.split(":") for part in _COLUMNS[self.name].split()]
        return {
            "name": self.name,
            "protocol": self.name.split("-")[0] if "-" in self.name else "all",
            "title": title,
            "what": sentence,
            "columns": [{"name": name, "title": name.title(), "kind": kind} for name, kind in columns],
            "search": "the beginning of a key or id",
        }

    def page(self, search: str, cursor: str, limit: int) -> dict[str, Any]:
        """Return a page; the search compares the first cell and the key."""
        start = int(cursor or 0)
        if search:
            everything = [*self.extra, *(self._row(number) for number in range(min(self.rows, 2_000)))]
            wanted = [row for row in everything if search.lower() in str([row["key"], row["cells"]]).lower()]
            total, rows = len(wanted), wanted[start : start + limit]
        else:
            total = len(self.extra) + self.rows
            numbers = range(start, min(total, start + limit))
            rows = [self._at(number) for number in numbers]
        return {
            "rows": rows,
            "next": str(start + limit) if start + limit < total else None,
            "total": total if self.complete else None,
            "complete": self.complete,
            "note": self.note,
            "as_of_ms": time.time_ns() // 1_000_000,
        }

    def detail(self, key: str) -> dict[str, Any] | None:
        """Return one row whole."""
        known = {row["key"]: row for row in self.extra}
        number = int(key.removeprefix("row/")) if key.startswith("row/") else -1
        if key not in known and not 0 <= number < self.rows:
            return None
        row = known.get(key) or self._row(number)
        columns = self.spec()["columns"]
        fields = [
            {"title": column["title"], "value": row["cells"][column["name"]], "kind": column["kind"]}
            for column in columns
        ]
        if self.name == "rejected":
            fields.append({"title": "Proof", "value": hexadecimal(key) * 20, "kind": "text"})
        entries = [
            [number, hexadecimal(key, number), 200 + number, row["key"]]
            for number in range(1, 241 if self.rows > 1 else 1)
        ]
        return {
            "title": str(row["cells"][columns[0]["name"]]),
            "fields": fields,
            "sections": [
                {
                    "title": "Entries",
                    "columns": [
                        {"name": "number", "title": "Number", "kind": "count"},
                        {"name": "id", "title": "Id", "kind": "id"},
                        {"name": "size", "title": "Size", "kind": "bytes"},
                        {"name": "place", "title": "Place", "kind": "text"},
                    ],
                    "rows": entries,
                    "note": "Newest last.",
                }
            ],
            "scan": {"limit_s": 5.0, "took_s": 0.31, "records": 1_204, "complete": self.complete},
        }

    def _at(self, number: int) -> dict[str, Any]:
        before = len(self.extra)
        return self.extra[number] if number < before else self._row(number - before)

    def _row(self, number: int) -> dict[str, Any]:
        cells: dict[str, Any] = {}
        for part in _COLUMNS[self.name].split():
            name, kind = part.split(":")
            cells[name] = self._value(name, kind, number)
        return {"key": f"row/{number}", "cells": cells, "severity": 0}

    def _value(self, name: str, kind: str, number: int) -> Any:
        digest = hexadecimal(self.name, name, number)
        match kind:
            case "id":
                return digest
            case "count" | "bytes":
                return int(digest[:6], 16)
            case "time":
                return 1_795_780_000_000 - number * 61_000
            case "state":
                return ("ready", "lagging", "unknown")[number % 3]
            case "list":
                return [digest[start : start + 20] for start in range(0, 20 * (number % 4), 20)]
            case _:
                codes = ("bamboo.signature", "logs.fork", "sds.bloom", "chotki.packet")
                return codes[number % 4] if name == "code" else f"{name} {number}"


def generated_tables(rows: int = 130) -> dict[str, GeneratedTable]:
    """Return a table of every name, each with this many rows."""
    return {name: GeneratedTable(name, rows) for name in _COLUMNS}
