"""Histories of documents by many authors, a model of the node that takes them, indexes of former formats."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import lmdb

from culm_connectors.logs.index import layout
from culm_models.bamboo import lipmaa, needs_skiplink, sign_entry
from culm_models.p2panda.operations.operation import (
    Action,
    CheckedOperation,
    Value,
    check_entry,
    encode_operation,
)
from culm_models.p2panda.wire.messages import LogHeight
from tests.support.p2panda.logs import SCHEMA, author

Log = tuple[bytes, int]


class History:
    """Authors that write to documents together; all that they write, in the order of writing."""

    def __init__(self) -> None:
        self.logs: dict[Log, list[CheckedOperation]] = {}
        self.written: list[CheckedOperation] = []
        self.document: dict[bytes, bytes] = {}
        """The document of each operation."""

    def write(
        self,
        name: str,
        log_id: int,
        previous: Iterable[bytes] | None = None,
        *,
        delete: bool = False,
        schema_id: str = SCHEMA,
    ) -> bytes:
        """One operation: a create where it has no `previous`; returns its id."""
        key = author(name)
        log = self.logs.setdefault((key.public_key, log_id), [])
        seq_num = len(log) + 1
        view = None if previous is None else tuple(sorted(set(previous)))
        action: Action = "create" if view is None else "delete" if delete else "update"
        fields: dict[str, Value] | None = None
        if action != "delete":
            fields = {"name": f"{name} {log_id} {seq_num}"}
        operation = encode_operation(action, schema_id, previous=view, fields=fields)
        entry = sign_entry(
            key,
            log_id,
            seq_num,
            operation,
            skiplink=log[lipmaa(seq_num) - 1].hash if needs_skiplink(seq_num) else None,
            backlink=log[-1].hash if log else None,
        )
        checked = check_entry(entry, operation)
        log.append(checked)
        self.written.append(checked)
        self.document[checked.hash] = checked.hash if view is None else self.document.get(view[0], b"")
        return checked.hash

    def before(self, last: CheckedOperation) -> set[bytes]:
        """An operation with all that must come before it: what it refers to, what its log begins with."""
        by_hash = {operation.hash: operation for operation in self.written}
        ancestors: set[bytes] = set()
        waiting = [last]
        while waiting:
            operation = waiting.pop()
            if operation.hash not in ancestors:
                ancestors.add(operation.hash)
                backlink = () if operation.entry.backlink is None else (operation.entry.backlink,)
                waiting += [by_hash[key] for key in (*(operation.facts.previous or ()), *backlink)]
        return ancestors

    def deleted(self) -> set[bytes]:
        """The documents that somebody has deleted."""
        return {
            self.document[operation.hash] for operation in self.written if operation.facts.action == "delete"
        }

    def arrivals(self, rng: random.Random) -> Iterator[CheckedOperation]:
        """All entries, each log in its order and the logs in any."""
        waiting = [list(reversed(log)) for log in self.logs.values()]
        while waiting:
            log = rng.choice(waiting)
            yield log.pop()
            waiting = [left for left in waiting if left]


def random_history(
    rng: random.Random, operations: int, authors: Sequence[str], *, deletes: float = 0.1
) -> History:
    """Documents with concurrent updates, merges and deletes; an author keeps one log of each document."""
    history = History()
    documents: list[list[bytes]] = []
    log_ids: Counter[str] = Counter()
    logs: dict[tuple[str, int], int] = {}

    def log_id(name: str, number: int) -> int:
        if (name, number) not in logs:
            logs[name, number] = log_ids[name]
            log_ids[name] += 1
        return logs[name, number]

    for _ in range(operations):
        name = rng.choice(authors)
        if not documents or rng.random() < 0.2:
            documents.append([])
            documents[-1].append(history.write(name, log_id(name, len(documents) - 1)))
            continue
        number = rng.randrange(len(documents))
        known = documents[number]
        # Mostly on what was written last, sometimes on anything before: concurrent branches and merges.
        recent = known[-4:] if rng.random() < 0.7 else known
        previous = rng.sample(recent, rng.randint(1, min(3, len(recent))))
        delete = rng.random() < deletes
        known.append(history.write(name, log_id(name, number), previous, delete=delete))
    return history


class NodeModel:
    """A node that refuses what aquadoggo 0.9.1 refuses, and counts what it is brought."""

    def __init__(self, misfits: Iterable[bytes] = ()) -> None:
        self.misfits = set(misfits)
        """Operations that do not fit their schema."""
        self.logs: dict[Log, list[CheckedOperation]] = {}
        self.operations: dict[bytes, tuple[bytes, str]] = {}
        """Document and schema of every operation that was taken."""
        self.deleted: set[bytes] = set()
        self._log_ids: dict[tuple[bytes, bytes], int] = {}
        self.brought: Counter[bytes] = Counter()
        self.refusals: list[str] = []

    def heights(self) -> list[LogHeight]:
        """The height of every log."""
        return [(*log, len(entries)) for log, entries in sorted(self.logs.items())]

    def take(self, entries: Iterable[CheckedOperation]) -> bool:
        """One session's entries; False where the node ends the session with the first that it refuses."""
        for checked in entries:
            self.brought[checked.hash] += 1
            if checked.hash in self.operations:
                continue
            refusal = self._refusal(checked)
            if refusal is not None:
                self.refusals.append(refusal)
                return False
            document = self._document(checked)
            self.logs.setdefault(checked.log, []).append(checked)
            self.operations[checked.hash] = (document, checked.schema_id)
            self._log_ids.setdefault((checked.entry.public_key, document), checked.entry.log_id)
            if checked.facts.action == "delete":
                self.deleted.add(document)
        return True

    def _document(self, checked: CheckedOperation) -> bytes:
        return self.operations[checked.facts.previous[0]][0] if checked.facts.previous else checked.hash

    def _refusal(self, checked: CheckedOperation) -> str | None:
        entry, log = checked.entry, self.logs.get(checked.log, [])
        if entry.seq_num != len(log) + 1:
            return f"sequence number {entry.seq_num} after {len(log)}"
        if entry.backlink != (log[-1].hash if log else None):
            return "the backlink names another entry"
        if checked.hash in self.misfits:
            return "the operation does not fit its schema"
        for operation_id in checked.facts.previous or ():
            if operation_id not in self.operations:
                return f"Previous operation {operation_id.hex()} not found in store"
            if self.operations[operation_id][1] != checked.schema_id:
                return "the schema is not that of a previous operation"
        if len({self.operations[operation_id][0] for operation_id in checked.facts.previous or ()}) > 1:
            return "previous operations of two documents"
        document = self._document(checked)
        if document in self.deleted:
            return "the document is deleted"
        log_id = self._log_ids.get((entry.public_key, document))
        if log_id is None and entry.seq_num > 1:
            return "no log of this author and document is registered"
        if log_id is not None and log_id != entry.log_id:
            return f"the author writes to this document in log {log_id}"
        return None


_FIXTURES = Path(__file__).parents[2] / "connectors" / "logs" / "index_formats"


def write_index(folder: Path, index_format: int) -> list[CheckedOperation]:
    """Write every record of an index of format `index_format`; returns its entries, each log in its order.

    It has 16 logs; in format 1 there were 5 of them without a document.
    """
    fixture = json.loads((_FIXTURES / f"format_{index_format}.json").read_text())
    stored = json.loads(zlib.decompress(base64.b64decode(fixture["records"])))
    folder.mkdir(parents=True, exist_ok=True)
    with lmdb.open(str(folder), max_dbs=16, map_size=1 << 24) as environment:
        for name, records in stored.items():
            database = environment.open_db(name.encode())
            with environment.begin(write=True, db=database) as transaction:
                for key, value in records:
                    transaction.put(bytes.fromhex(key), bytes.fromhex(value))
    return [check_entry(*layout.unpack_entry(bytes.fromhex(value))) for _, value in stored["entries"]]
