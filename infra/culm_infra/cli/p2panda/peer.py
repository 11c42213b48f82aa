"""``culm p2panda peer``: the reference peer, which writes its own logs and synchronises with any peer."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TextIO

import typer

from culm_infra.cli.connector import address
from culm_infra.cli.kit import options
from culm_infra.cli.kit.data_folder import DataDirectory, with_folder
from culm_infra.cli.kit.log_names import parse_log_name
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import from_hex, optional_hex, public_key
from culm_infra.cli.kit.output import EXIT_FAILED, Results, counting, emit_json, print_table, safe, say
from culm_infra.cli.kit.reaching import announced, limit_text, when_it_answers
from culm_infra.cli.p2panda import ids
from culm_infra.cli.p2panda.peer_home import (
    entry_row,
    folder,
    log_rows,
    peer_id_of,
    print_summary,
    serve_until_interrupted,
    store,
    with_peer,
)
from culm_infra.errors import InfraError
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry

if TYPE_CHECKING:
    from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
    from culm_connectors.p2panda.reference_peer.sync_progress import SyncSummary

_IMPORT_CHUNK = 1_000
_KEY_DIGITS: Final = 64

Schemas = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        help="Announce this schema id instead of those that are held; `*` for all of the other side's, "
        "as a peer that holds nothing does; repeatable.",
    ),
]


def init(directory: DataDirectory = None, *, results: Results) -> None:
    """Create a key for this peer.

    Example: `culm p2panda peer init --dir ./alice`
    """
    from culm_connectors.edge.keyfile import make_key

    home = folder(directory)
    key_pair = make_key(home)
    results.one({"peer_id": key_pair.public_key, "directory": str(home)}, key_pair.public_key.hex())
    results.say(f"the key is in {safe(home)}; keep it: everyone who has it can write as this peer")
    results.next(with_folder("culm p2panda peer publish create NAME=VALUE --schema SCHEMA_ID", directory))


def publish(
    action: Annotated[Literal["create", "update", "delete"], typer.Argument(help="What to do.")],
    field: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME[:TYPE]=VALUE", help="Fields, str by default."),
    ] = None,
    *,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:TYPE]=PATH",
            help="A field with the contents of a file as its value, bytes by default; repeatable.",
        ),
    ] = None,
    schema: Annotated[str, typer.Option(help="The schema id.")],
    document: Annotated[str | None, typer.Option(help="The document to update or delete, in hex.")] = None,
    previous: Annotated[
        list[str] | None,
        typer.Option(help="An operation that it follows, in hex; by default all of the latest; repeatable."),
    ] = None,
    directory: DataDirectory = None,
    results: Results,
) -> None:
    """Write one operation to a log of this peer if p2panda nodes accept it.

    Types of fields: str, int, float, bool, bytes (hex), relation (an operation id in hex), relation_list and
    pinned_relation (ids joined by commas), pinned_relation_list (such lists joined by semicolons). Fields are
    checked against the schema if it is a system schema, or if this peer holds its definition.

    Example: `culm p2panda peer publish create name=Culm height:int=3 --schema venue_0020…`
    """
    from culm_connectors.p2panda.reference_peer.authoring import (
        Draft,
        document_tips,
        has_schema_definition,
        is_deleted,
    )
    from culm_connectors.p2panda.reference_peer.field_texts import parse_fields, untyped_numbers

    ids.check_schema_id(schema, "--schema")
    document_id = None if document is None else ids.operation_id(document, "--document")
    if action == "delete" and (field or file):
        raise typer.BadParameter("a delete has no fields", param_hint="NAME[:TYPE]=VALUE")
    fields = parse_fields(field or [], file or []) if action != "delete" else None

    async def work(peer: ReferencePeer) -> list[CheckedOperation]:
        follows = tuple(sorted(from_hex(text, "--previous") for text in previous or []))
        if not follows and document_id is not None:
            follows = document_tips(peer.store, document_id)
            if not follows and action != "create":
                raise InfraError(
                    f"no operation of the document {document_id.hex()} is stored here",
                    hint=f"`{with_folder('culm p2panda peer sync HOST:PORT', directory)}` brings it; "
                    "or name what the operation follows: --previous",
                )
        draft = Draft(action, schema, fields, document_id, follows or None)
        published = await peer.publish([draft])
        if not has_schema_definition(peer.store, schema):
            for advice in untyped_numbers(field or []):
                say(f"[bold yellow]warning[/]: {safe(advice)}")
        if action == "update" and is_deleted(peer.store, published[0].hash):
            say("[bold yellow]warning[/]: the document was deleted, so this update changes nothing")
        return published

    (checked,) = asyncio.run(with_peer(directory, work))
    results.one(entry_row(checked), checked.hash.hex())
    lines = ("culm p2panda peer show", "culm p2panda peer sync HOST:PORT")
    results.next(*(with_folder(line, directory) for line in lines))


def import_logs(
    file: Annotated[typer.FileText, typer.Argument(help="JSON Lines of entry and operation; - for stdin.")],
    directory: DataDirectory = None,
    *,
    results: Results,
) -> None:
    """Import entries, signed by anyone, from a file: JSON Lines or a document with `chains`.

    Example: `culm p2panda peer import history.jsonl`
    """
    from culm_connectors.logs.interchange import read_pairs

    codes: Counter[str] = Counter()
    taken = 0

    async def work(peer: ReferencePeer) -> None:
        nonlocal taken
        pairs = read_pairs(file)
        while chunk := list(itertools.islice(pairs, _IMPORT_CHUNK)):
            errors = await peer.add(chunk)
            codes.update(error.code for error in errors if error is not None)
            taken += errors.count(None)

    asyncio.run(with_peer(directory, work))
    results.one({"taken": taken, "refused": codes}, f"{taken} entries taken")
    for code, count in sorted(codes.items()):
        results.say(f"{count} refused: {safe(code)}")
    if codes:
        raise typer.Exit(EXIT_FAILED)


def export(
    directory: DataDirectory = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The file to write; - prints the lines.")
    ] = Path("-"),
    schema: options.OnlySchemas = None,
) -> None:
    """Write all entries of this peer as JSON Lines, log by log.

    Example: `culm p2panda peer export -o history.jsonl`
    """
    if str(output) == "-":
        _write_entries(sys.stdout, directory, schema)
        return
    with new_path(output, replaces_file=True) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        _write_entries(file, directory, schema)


def _write_entries(file: TextIO, directory: Path | None, schema: list[str] | None) -> None:
    from culm_connectors.logs.interchange import write_pairs

    with store(directory) as opened:
        for public_key, log_id, height in opened.log_heights(schema or opened.schema_ids()):
            write_pairs(file, opened.entries(public_key, log_id, 1, height))


def sync(
    context: typer.Context,
    where: Annotated[str, typer.Argument(metavar="[quic://]HOST:PORT", help="A connector or another peer.")],
    *,
    live: Annotated[bool, typer.Option("--live", help="Stay, and exchange what is new.")] = False,
    timeout_s: options.AnswerTimeout = None,
    expect: options.ExpectedPeer = None,
    schema: Schemas = None,
    directory: DataDirectory = None,
    datagram_size: options.DatagramSize = None,
    mode: options.SyncMode = None,
    latency: options.Latency = False,
    results: Results,
) -> None:
    """Bring both sides up to date.

    With --timeout it also waits for so long until the other side serves the schemas of this peer.

    Exit status 1: entries were refused, or could not be sent; they are listed.

    Example: `culm p2panda peer sync 127.0.0.1:4455 --live`
    """
    target = address(where, "HOST:PORT")
    expected = optional_hex(expect, "--expect")
    if mode == "heights":
        options.refuse(
            context, ["latency"], "is about set reconciliation, which --sync-mode heights does without"
        )

    from culm_connectors.p2panda.reference_peer.sync_progress import QUIET_S

    async def work(peer: ReferencePeer) -> bool:
        with counting("catching up") as count:

            def show(summary: SyncSummary) -> None:
                text = f"received {summary.entries_received}, sent {summary.entries_sent}"
                count(description=text, completed=summary.entries_received)

            with announced(f"waiting for an answer of {where}{limit_text(timeout_s)}") as answered:

                def show_answer(summary: SyncSummary) -> None:
                    answered()
                    show(summary)

                summary = await when_it_answers(
                    lambda: peer.sync(
                        target,
                        expected_peer_id=expected,
                        progress=show_answer,
                        quiet_s=max(QUIET_S, timeout_s or 0.0),
                    ),
                    timeout_s,
                )
        print_summary(summary, results)
        if live:
            say("staying; interrupt to leave")
            await serve_until_interrupted(peer.dial(target, summary.remote))
        return summary.is_complete

    is_complete = asyncio.run(
        with_peer(
            directory,
            work,
            live_mode=live,
            schemas=schema,
            datagram_size=datagram_size,
            sessions={"mode": mode, "latency": latency or None},
            make=True,
        )
    )
    if not is_complete:
        raise typer.Exit(EXIT_FAILED)


def serve(
    listen: Annotated[str, typer.Option(metavar="[quic://]HOST:PORT", help="Where to accept peers.")] = (
        "127.0.0.1:0"
    ),
    *,
    schema: Schemas = None,
    directory: DataDirectory = None,
    results: Results,
) -> None:
    """Accept peers until interrupted.

    Example: `culm p2panda peer serve --listen 127.0.0.1:4466`
    """
    where = address(listen, "--listen")

    async def work(peer: ReferencePeer) -> None:
        async with peer.serve(where) as listener:
            host, port = listener.address
            results.one({"address": f"{host}:{port}", "peer_id": peer.peer_id}, f"{host}:{port}")
            results.say(f"serving as {peer.peer_id.hex()}")
            results.next(f"culm p2panda peer sync {host}:{port} --dir DIR")
            await serve_until_interrupted()

    asyncio.run(with_peer(directory, work, schemas=schema, make=True))


def show(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY[/LOG_ID]",
            help="An author, or one log; LOG_ID alone is a log of this peer. By default this peer's logs.",
        ),
    ] = None,
    *,
    directory: DataDirectory = None,
    results: Results,
) -> None:
    """List an author's logs, or the entries of one log.

    Example: `culm p2panda peer show`; `culm p2panda peer show 0`
    """
    author, log_id = _author_and_log(log)
    rows: list[dict[str, Any]] = []
    with store(directory) as opened:
        author = author or peer_id_of(directory)
        if log_id is None:
            rows = [row for row in log_rows(opened) if row["public_key"] == author]
        else:
            pairs = opened.entries(author, log_id, 1, opened.height(author, log_id))
            rows = [entry_row(check_entry(*pair, verify_signature=False)) for pair in pairs]
    if rows:
        results.rows(rows, list(rows[0]))
    else:
        results.say("nothing of it is stored")


def _author_and_log(text: str | None) -> tuple[bytes | None, int | None]:
    if text is None:
        return None, None
    if len(text) == _KEY_DIGITS:
        return public_key(text, "KEY[/LOG_ID]"), None
    return parse_log_name(text, "KEY[/LOG_ID]")


def status(directory: DataDirectory = None, *, results: Results) -> None:
    """Show the contents of this peer's store.

    Example: `culm p2panda peer status --json`
    """
    home, peer_id = folder(directory), peer_id_of(directory)
    with store(directory) as opened:
        logs, entries = opened.counts()
        row = {
            "peer_id": peer_id.hex(),
            "directory": str(home),
            "logs": logs,
            "entries": entries,
            "schemas": list(opened.schema_ids()),
            "bytes": opened.size_bytes(),
        }
    if results.json:
        emit_json(row)
    else:
        print_table(None, ["", ""], [[name, value] for name, value in row.items()])
    if not logs:
        results.next(with_folder("culm p2panda peer publish create NAME=VALUE --schema SCHEMA_ID", directory))


app = noun(
    "The reference peer: its own logs, synchronised over QUIC.",
    {
        "init": init,
        "publish": publish,
        "import": import_logs,
        "export": export,
        "sync": sync,
        "serve": serve,
        "show": show,
        "status": status,
    },
)
