"""``culm p2panda documents``: current fields instead of single operations, of a deployment or of a peer.

The documents of a deployment are in the topic `documents`, which the job of that name writes. With ``--dir``
they are reduced from what a peer's folder holds.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, NoReturn

import typer

from culm_infra.cli.kit import options
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, emit_json, out, safe
from culm_infra.cli.kit.start_at import StartTime, parse_start
from culm_infra.cli.p2panda import ids
from culm_infra.cli.p2panda.document_rows import (
    COLUMNS,
    document_row,
    fields_row,
    notes_of,
    summary,
    view_row,
)
from culm_infra.cli.p2panda.document_sources import DocumentSource, PeerDirectory, open_documents
from culm_infra.errors import InfraError

if TYPE_CHECKING:
    from culm_models.p2panda.documents.document import DocumentView
    from culm_models.p2panda.documents.typed import TypedDocument
    from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId

DocumentIdArgument = Annotated[str, typer.Argument(metavar="DOCUMENT_ID", help="The document, in hex.")]
Schemas = Annotated[
    list[str] | None,
    typer.Option("--schema", metavar="SCHEMA", help="Only this schema, by its id or its name; repeatable."),
]
Author = Annotated[str | None, typer.Option(metavar="KEY", help="Only documents that this author created.")]
_NO_DOCUMENTS: Final = "no such document is here"
_NO_RECORDS: Final = (
    "no document is in `documents`: `culm job run documents` writes the topic, and Spark takes up to a "
    "minute to start"
)
_NONE_SELECTED: Final = (
    "no such document is in `documents`: the same command without --schema and --author lists all of them; "
    "`culm job run documents` writes the topic"
)
_SHOWN_HEADS: Final = 4


def list_documents(
    context: typer.Context,
    *,
    schema: Schemas = None,
    author: Author = None,
    directory: PeerDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """List the documents of a deployment, or of a peer's folder, with their current fields.

    Example: `culm p2panda documents list --schema venue`, `culm p2panda documents list --dir peer`
    """
    with open_documents(context, kafka, directory, schema or None, _owners(author)) as source:
        rows = map(document_row, source.selected())
        if results.json:
            results.rows(rows, COLUMNS)
        else:
            shown = [{**row, "fields": summary(row["fields"])} for row in rows]
            if shown:
                results.rows(shown, COLUMNS)
                first = shown[0]["document_id"].hex()
                results.next(source.command(f"culm p2panda documents show {first}"))
            else:
                is_selective = bool(schema) or author is not None
                in_topic = _NONE_SELECTED if is_selective else _NO_RECORDS
                results.say(_NO_DOCUMENTS if directory is not None else in_topic)
        source.report(results)


def show(
    context: typer.Context,
    document_id: DocumentIdArgument,
    *,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="VIEW_ID", help="The document at these heads: operation ids in hex, joined by `_`."
        ),
    ] = None,
    directory: PeerDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Show the fields of one document, who set them, and what is missing.

    Exit status 3: operations or related documents are missing, or fields do not match the schema. Of a
    deployment, an earlier view may need operations that are searched for in `logs`.

    Example: `culm p2panda documents show 0020…`
    """
    wanted = ids.operation_id(document_id, "DOCUMENT_ID")
    view_id = None if view is None else ids.view_id(view, "--view")
    with open_documents(context, kafka, directory) as source:
        document = _document(source, wanted)
        if view_id is not None:
            _show_view(_view(source, document, view_id), document, results)
            return
    row = document_row(document)
    if results.json:
        results.one(row, "")
    else:
        _show_fields(document.view, row["fields"], results)
        results.say(f"operations: {document.operations}; view: {_view_text(document.view.view_id)}")
        for note in notes_of(row):
            results.say(f"[yellow]{safe(note)}[/]")
    if row["missing"] or row["waiting"] or row["problems"] or row["refused"]:
        raise typer.Exit(EXIT_DEGRADED)


def watch(
    *,
    since: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="beginning|now",
            help="Where to start: beginning, which prints the present documents first, or now.",
            autocompletion=options.words("beginning", "now"),
        ),
    ] = "beginning",
    schema: Schemas = None,
    author: Author = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N results.")
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Print the present documents of a deployment, and then each document that changes, until interrupted.

    With `--json`, `changed` has the names of the fields that other operations set than before, and `document`
    is as `list` prints it, or null if the topic has dropped it. There is no start at a time, because the
    topic has the present state of documents only.

    Example: `culm p2panda documents watch --schema venue`, `culm p2panda documents watch --from now --json`
    """
    from culm_topics.p2panda.documents.consumer import DocumentConsumer

    owners = _owners(author)
    if since not in ("beginning", "now"):
        _refuse_start(since)
    left = count
    with DocumentConsumer(kafka.settings(), schemas=schema or None, owners=owners) as consumer:
        if since == "now":
            consumer.load()
        results.say("waiting for documents, which `culm job run documents` writes; interrupt to stop")
        for change in consumer:
            row = None if change.document is None else document_row(change.document)
            if results.json:
                emit_json({"document_id": change.document_id, "changed": change.fields, "document": row})
            elif row is None:
                out.print(f"{change.document_id.hex()} is no longer in the topic", markup=False)
            else:
                state = "deleted" if row["deleted"] else safe(summary(row["fields"], change.fields))
                out.print(f"{change.document_id.hex()} {safe(row['schema_id'])} {state}")
            if left is not None:
                left -= 1
                if left == 0:
                    break
        results.passed_over(consumer.passed_over)


def blob(
    context: typer.Context,
    document_id: DocumentIdArgument,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The file to write; - is standard output.")
    ] = Path("-"),
    directory: PeerDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Write the bytes of a blob, a document of the schema blob_v1.

    A file appears only if the blob is complete. Standard output receives the bytes before the first piece
    that is missing; the exit status is then 1.

    Example: `culm p2panda documents blob 0020… -o picture.png`
    """
    wanted = ids.operation_id(document_id, "DOCUMENT_ID")
    with open_documents(context, kafka, directory) as source:
        pieces = source.blob(_document(source, wanted))
        if str(output) == "-":
            _write(pieces, sys.stdout.buffer)
            return
        with new_path(output, replaces_file=True) as unfinished, unfinished.open("wb") as file:
            size = _write(pieces, file)
    results.one({"path": str(output), "bytes": size}, f"{output}: {size:,} bytes")


def _owners(author: str | None) -> list[bytes] | None:
    return None if author is None else [options.public_key(author, "--author")]


def _document(source: DocumentSource, document_id: DocumentId) -> TypedDocument:
    document = source.document(document_id)
    if document is None:
        raise InfraError(
            f"there is no document {document_id.hex()} here",
            hint="`culm p2panda documents list` lists documents by the ids of their creates",
        )
    return document


def _refuse_start(text: str) -> NoReturn:
    """Raise `StartByTimeRefused` for a time, and `typer.BadParameter` for any other text."""
    from culm_topics.p2panda.documents.errors import StartByTimeRefused

    with contextlib.suppress(typer.BadParameter):
        if isinstance(parse_start(text), StartTime):
            raise StartByTimeRefused(
                f"documents cannot be read from {text}: their topic has the present state of each"
            )
    raise typer.BadParameter(
        f"{text[:80]!r} is not a place to start: give beginning or now", param_hint="--from"
    )


def _view(source: DocumentSource, document: TypedDocument, view_id: DocumentViewId) -> DocumentView:
    view = source.view_at(view_id)
    if view.document_id != document.view.document_id:
        raise InfraError(f"this is a view of another document, {view.document_id.hex()}")
    return view


def _show_view(view: DocumentView, document: TypedDocument, results: Results) -> None:
    row = {**view_row(view), "fields": fields_row(view, document)}
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


def _view_text(view_id: DocumentViewId) -> str:
    """Return a view id as `--view` takes it; of many heads their number."""
    if len(view_id) > _SHOWN_HEADS:
        return f"{len(view_id)} heads (--json lists them)"
    return "_".join(operation_id.hex() for operation_id in view_id)


def _write(pieces: Iterable[bytes], file: BinaryIO) -> int:
    size = 0
    for piece in pieces:
        size += file.write(piece)
    return size


app = noun(
    "Documents: the current fields that result from the operations of several authors.",
    {"list": list_documents, "show": show, "watch": watch, "blob": blob},
)
