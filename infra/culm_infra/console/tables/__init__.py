"""Tables of the console: what a table is, its pages and details, and the loading of all protocols' tables.

A protocol's tables are in modules named after it (`p2panda` and `p2panda_peers`, `sds`, `chotki`, `bamboo`,
`dag`); `rejected` has the refused data of all. What they share:

- `follower` keeps the present contents of small topics, which `packed` holds in bounded memory.
- `scan` reads large topics for details, with a time limit; `log_entries` does so for entries of a log.
- `blocks` decodes log heights block by block; `paging` has cursors and searches.

`culm_infra.protocols.CONSOLE_TABLES` names, for each protocol, the functions that open them:
`module:function` below this package. Such a function takes a `TableContext` and returns tables. Methods of a
table run in threads, several at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol

from culm_infra.protocols import CONSOLE_TABLES
from culm_topics.kafka.clients import KafkaSettings

ColumnKind = Literal["id", "text", "count", "bytes", "time", "state", "list"]
"""Kind of a value: an id or key in full, text, a number, a size in bytes, milliseconds since 1970, a state in
one word, or a list of texts.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the name of its cells in rows, its head, and the kind of its values."""

    name: str
    title: str
    kind: ColumnKind


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Description of a table; `what` is a sentence, `search` the placeholder of the search field."""

    name: str
    protocol: str
    title: str
    what: str
    columns: Sequence[Column]
    search: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row. `key` is what `ConsoleTable.detail` takes; `severity` is 0 (well) to 3 (failed)."""

    key: str
    cells: Mapping[str, Any]
    severity: int = 0


@dataclass(frozen=True, slots=True)
class TablePage:
    """Some rows of a table.

    `next` is the cursor of the next page, or None at the end. `total` is None if it is not known. `complete`
    is false while the topics are still being read, or if a limit was met; `note` says so in a sentence.
    """

    rows: Sequence[TableRow]
    next: str | None
    total: int | None
    complete: bool
    note: str | None
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class DetailField:
    """A named value of a detail."""

    title: str
    value: Any
    kind: ColumnKind = "text"


@dataclass(frozen=True, slots=True)
class DetailSection:
    """A table inside a detail: its rows are lists of values in the order of the columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Amount of data that was read for a detail; `complete` is false if the limit ended the reading."""

    limit_s: float
    took_s: float
    records: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Detail:
    """All about one row."""

    title: str
    fields: Sequence[DetailField]
    sections: Sequence[DetailSection]
    scan: Scan


class ConsoleTable(Protocol):
    """One table. Errors of Kafka are raised as `KafkaFailure`; the page shows them."""

    @property
    def spec(self) -> TableSpec:
        """Return the description."""
        ...

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return rows that match the search; an empty cursor is the first page.

        Raises `BadRequest` for a search or a cursor that is malformed.
        """
        ...

    def detail(self, key: str) -> Detail:
        """Return all about a row. Raises `NotFound`, or `BadRequest` for a malformed key."""
        ...


class BadRequest(Exception):
    """A search, cursor or key is malformed; the text says how, in a sentence."""


class NotFound(Exception):
    """There is no such row; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class TableContext:
    """Resources of all tables. `stack` closes what a table has opened; `shared` is for parts that several
    protocols' tables share.
    """

    kafka: KafkaSettings
    max_table_bytes: int
    scan_timeout_s: float
    stack: ExitStack = field(default_factory=ExitStack)
    shared: dict[str, Any] = field(default_factory=dict)


Opening = Callable[[TableContext], Sequence[ConsoleTable]]


def open_tables(context: TableContext) -> dict[str, ConsoleTable]:
    """Open the tables of all protocols; returns them by name, in the order of `CONSOLE_TABLES`."""
    tables: dict[str, ConsoleTable] = {}
    for places in CONSOLE_TABLES.values():
        for place in places:
            module, _, name = place.partition(":")
            opening: Opening = getattr(import_module(f"{__name__}.{module}"), name)
            for table in opening(context):
                assert table.spec.name not in tables, f"two tables are named {table.spec.name}"
                tables[table.spec.name] = table
    return tables
