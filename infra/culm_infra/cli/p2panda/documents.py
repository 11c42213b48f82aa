"""``culm p2panda documents``: current fields instead of single operations, reduced from a peer's folder."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from culm_infra.cli.kit import options
from culm_infra.cli.kit.data_folder import DataDirectory, with_folder
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import from_hex
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting, safe
from culm_infra.cli.p2panda.peer_home import peer_id_of, store
from culm_infra.errors import InfraError

if TYPE_CHECKING:
    from culm_connectors.p2panda.reference_peer.documents import StoredDocuments
    from culm_models.p2panda.documents.document import DocumentView
    from culm_models.p2panda.documents.typed import TypedDocument

DocumentIdArgument = Annotated[str, typer.Argument(metavar="DOCUMENT_ID", help="The document, in hex.")]

_COLUMNS = ("document_id", "schema_id", "operations", "deleted", "fields")
_SHOWN_FIELDS = 3


def list_documents(
    *,
    schema: options.OnlySchemas = None,
    author: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only documents that this author created.")
    ] = None,
    directory: DataDirectory = None,
    results: Results,
) -> None:
    """List the documents of a peer's folder with their current fields.

    Example: `culm p2panda documents list --schema venue_0020…`
    """
    owner = None if author is None else options.public_key(author, "--author")

    def rows(documents: StoredDocuments) -> Iterator[dict[str, Any]]:
        ids = list(documents.ids(schema))
        with counting("reducing documents", len(ids)) as count:
            for document_id in ids:
                document = documents.document(document_id)
                count(advance=1)
                if document is not None and owner in (None, document.view.owner):
                    yield _row(document)

    with _documents(directory) as documents:
        if results.json:
            results.rows(rows(documents), _COLUMNS)
            return
        shown = [{**row, "fields": _summary(row["fields"])} for row in rows(documents)]
    if shown:
        results.rows(shown, _COLUMNS)
        results.next(with_folder(f"culm p2panda documents show {shown[0]['document_id'].hex()}", directory))
    else:
        results.say("no document is stored")


def show(
    document_id: DocumentIdArgument,
    *,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="VIEW_ID", help="The document at these heads: operation ids in hex, joined by `_`."
        ),
    ] = None,
    directory: DataDirectory = None,
    results: Results,
) -> None:
    """Show the fields of one document, who set them, and what is missing.

    Exit status 3: operations or related documents are missing, or fields do not match the schema.

    Example: `culm p2panda documents show 0020…`
    """
    wanted = from_hex(document_id, "DOCUMENT_ID")
    with _documents(directory) as documents:
        document = _document(documents, wanted)
        if view is not None:
            _show_view(_view(documents, document, view), document, results)
            return
    row = _row(document)
    if results.json:
        results.one(row, "")
    else:
        _show_fields(document.view, row["fields"], results)
        for note in _notes(row):
            results.say(f"[yellow]{safe(note)}[/]")
    if row["missing"] or row["waiting"] or row["problems"] or row["refused"]:
        raise typer.Exit(EXIT_DEGRADED)


def blob(
    document_id: DocumentIdArgument,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The file to write; - is standard output.")
    ] = Path("-"),
    directory: DataDirectory = None,
    results: Results,
) -> None:
    """Write the bytes of a blob, a document of the schema blob_v1.

    A file appears only if the blob is complete. Standard output receives the bytes before the first piece
    that is missing; the exit status is then 1.

    Example: `culm p2panda documents blob 0020… -o picture.png`
    """
    from culm_models.p2panda.documents.blobs import read_blob

    wanted = from_hex(document_id, "DOCUMENT_ID")
    with _documents(directory) as documents:
        pieces = read_blob(_document(documents, wanted).view, documents.view)
        if str(output) == "-":
            _write(pieces, sys.stdout.buffer)
            return
        with new_path(output, replaces_file=True) as unfinished, unfinished.open("wb") as file:
            size = _write(pieces, file)
    results.one({"path": str(output), "bytes": size}, f"{output}: {size:,} bytes")


@contextlib.contextmanager
def _documents(directory: Path | None) -> Iterator[StoredDocuments]:
    from culm_connectors.p2panda.reference_peer.documents import StoredDocuments

    peer_id_of(directory)  # a folder without a key is no peer's, and is not created
    with store(directory) as opened:
        yield StoredDocuments(opened)


def _document(documents: StoredDocuments, document_id: bytes) -> TypedDocument:
    document = documents.document(document_id)
    if document is None:
        raise InfraError(
            f"no document {document_id.hex()} is stored here",
            hint="`culm p2panda documents list` lists documents by the ids of their creates",
        )
    return document


def _view(documents: StoredDocuments, document: TypedDocument, text: str) -> DocumentView:
    from culm_models.p2panda.operations.identifiers import DocumentViewIdError, parse_view_id

    try:
        found = documents.view(parse_view_id(text))
    except DocumentViewIdError as error:
        raise typer.BadParameter(str(error), param_hint="--view") from error
    if found is None or found.document_id != document.view.document_id:
        raise InfraError("not all operations of this view are stored here, or they are of another document")
    return found


def _show_view(view: DocumentView, document: TypedDocument, results: Results) -> None:
    row = {**_view_row(view, document), "fields": _fields(view, document)}
    if results.json:
        results.one(row, "")
    else:
        _show_fields(view, row["fields"], results)


def _show_fields(view: DocumentView, fields: dict[str, Any] | None, results: Results) -> None:
    results.say(f"{safe(view.schema_id)}, created by {view.owner.hex()}")
    if fields is None:
        results.one({}, "deleted")
    else:
        rows = [{"field": name, **field} for name, field in fields.items()]
        results.rows(rows, ("field", "type", "value", "author"))


def _row(document: TypedDocument) -> dict[str, Any]:
    return {
        **_view_row(document.view, document),
        "fields": _fields(document.view, document),
        "operations": document.operations,
        "waiting": document.waiting,
        "missing": [operation_id.hex() for operation_id in document.missing],
        "refused": {operation_id.hex(): code for operation_id, code in document.refused.items()},
        "problems": {name: {"code": e.code, "text": str(e)} for name, e in document.problems.items()},
    }


def _view_row(view: DocumentView, document: TypedDocument) -> dict[str, Any]:
    return {
        "document_id": view.document_id,
        "schema_id": view.schema_id,
        "owner": view.owner,
        "view_id": [operation_id.hex() for operation_id in view.view_id],
        "deleted": view.fields is None,
    }


def _fields(view: DocumentView, document: TypedDocument) -> dict[str, Any] | None:
    """Return the fields as JSON; their types are those of the schema if it is known."""
    from culm_models.conform.p2panda.messages import field_to_json

    if view.fields is None:
        return None
    types = document.types or {}
    return {
        name: {
            **field_to_json(field.value),
            **({"type": types[name]} if name in types and name not in document.problems else {}),
            "operation_id": field.operation_id.hex(),
            "author": field.author.hex(),
        }
        for name, field in sorted(view.fields.items())
    }


def _summary(fields: dict[str, Any] | None) -> str:
    if fields is None:
        return ""
    texts = [f"{name}: {field['value']}" for name, field in fields.items()]
    return ", ".join(texts[:_SHOWN_FIELDS] + (["…"] if len(texts) > _SHOWN_FIELDS else []))


def _notes(row: dict[str, Any]) -> Iterator[str]:
    if row["waiting"]:
        yield f"{row['waiting']} operations wait for {len(row['missing'])} that are missing"
    for operation_id, code in row["refused"].items():
        yield f"{operation_id} was refused: {code}"
    for name, problem in row["problems"].items():
        yield f"{name}: {problem['text']} ({problem['code']})"


def _write(pieces: Iterable[bytes], file: BinaryIO) -> int:
    size = 0
    for piece in pieces:
        size += file.write(piece)
    return size


app = noun(
    "Documents: what the operations of several authors amount to.",
    {"list": list_documents, "show": show, "blob": blob},
)
