"""What p2panda nodes hold, read from their databases, and a report of what differs between them.

A node answers GraphQL with what it has materialised; its tables tell that apart from what it was sent.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Place = tuple[str, int, int]
"""Public key in hex, log id, sequence number."""


@dataclass(frozen=True, slots=True)
class HeldOperation:
    """One operation in a node's store."""

    document_id: str
    action: str
    place: Place
    sorted_index: int | None
    """Its position in the document. None: the node has not materialised it, and sends it to nobody."""


@dataclass(frozen=True, slots=True)
class HeldDocument:
    """What a node has materialised of one document."""

    view_id: str
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class NodeStore:
    """The tables of one node at one moment."""

    operations: Mapping[str, HeldOperation]
    documents: Mapping[str, HeldDocument]
    entries: int
    """How many entries it holds, of all schemas."""

    def operations_of(self, document_id: str) -> set[str]:
        """The ids of the operations of one document."""
        return {key for key, operation in self.operations.items() if operation.document_id == document_id}

    def not_materialised(self) -> set[str]:
        """The documents with operations that the node holds and has not materialised."""
        return {
            operation.document_id for operation in self.operations.values() if operation.sorted_index is None
        }


def read_store(database: Path, schema_id: str) -> NodeStore:
    """What a node, running or not, holds of a schema."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        operations = connection.execute(
            "SELECT operation_id, document_id, action, entries.public_key, log_id, seq_num, sorted_index "
            "FROM operations_v1 JOIN entries ON entry_hash = operation_id WHERE schema_id = ?",
            (schema_id,),
        ).fetchall()
        documents = connection.execute(
            "SELECT document_id, document_view_id, is_deleted FROM documents WHERE schema_id = ?",
            (schema_id,),
        ).fetchall()
        ((entries,),) = connection.execute("SELECT count(*) FROM entries").fetchall()
    return NodeStore(
        {
            operation_id: HeldOperation(document_id, action, (key, int(log_id), int(seq_num)), index)
            for operation_id, document_id, action, key, log_id, seq_num, index in operations
        },
        {document_id: HeldDocument(view_id, bool(deleted)) for document_id, view_id, deleted in documents},
        entries,
    )


def report(
    stores: Mapping[str, NodeStore],
    elsewhere: Mapping[str, Mapping[str, HeldOperation]],
    deleted: Collection[str],
) -> str:
    """Every document that is not the same at all nodes, with all its operations and who holds each.

    `elsewhere` is what others than nodes hold (the index, `logs`); `deleted` the documents for which somebody
    has written a delete.
    """
    return "\n".join(_lines(stores, elsewhere, deleted)) or "no document differs"


def _lines(
    stores: Mapping[str, NodeStore],
    elsewhere: Mapping[str, Mapping[str, HeldOperation]],
    deleted: Collection[str],
) -> Iterator[str]:
    holders = {name: store.operations for name, store in stores.items()} | dict(elsewhere)
    documents: dict[str, dict[str, HeldOperation]] = {}
    for operations in holders.values():
        for key, operation in operations.items():
            documents.setdefault(operation.document_id, {})[key] = operation
    for document_id in sorted(documents, key=lambda document_id: (document_id in deleted, document_id)):
        operations = documents[document_id]
        views = [store.documents.get(document_id) for store in stores.values()]
        if len(set(views)) == 1 and all(operations.keys() <= stored.keys() for stored in holders.values()):
            continue
        yield f"document {document_id}{' (deleted by somebody)' if document_id in deleted else ''}"
        for name, view in zip(stores, views, strict=True):
            yield f"  view at {name}: {_short(view)}"
        for key, operation in sorted(operations.items(), key=lambda item: item[1].place):
            where = [_held(name, stored.get(key), name in stores) for name, stored in holders.items()]
            author, log_id, seq_num = operation.place
            entry = f"{author[:6]} log {log_id} entry {seq_num}"
            yield f"  {operation.action} {key[-6:]}, {entry}: {', '.join(where)}"


def _held(name: str, operation: HeldOperation | None, is_node: bool) -> str:
    if operation is None:
        return f"not {name}"
    return f"{name} at {operation.sorted_index}" if is_node else name


def _short(view: HeldDocument | None) -> str:
    if view is None:
        return "none"
    ids = "_".join(part[-6:] for part in view.view_id.split("_"))
    return f"{ids}{' (deleted)' if view.is_deleted else ''}"
