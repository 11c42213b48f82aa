"""``culm chotki dump`` and ``verify``: read a running replica completely, and compare it."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from culm_infra.cli.chotki.address import ADDRESS_HELP, complete_address, replica_address
from culm_infra.cli.chotki.reading import vector_texts, whole_state
from culm_infra.cli.kit.data_folder import DataDirectory
from culm_infra.cli.kit.options import KAFKA_FLAGS, KafkaFlags, refuse
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting, emit_json, safe, say, table
from culm_infra.columns import Cell, Columns, Row
from culm_infra.patience import Patience
from culm_models.chotki.compare import Comparison, FieldDifference, Side, VectorDifference, compare
from culm_models.chotki.dump import dump_lines, print_field

if TYPE_CHECKING:
    from culm_connectors.chotki.reference_peer.copy import ReplicaCopy
    from culm_connectors.transport import Identity
    from culm_infra.settings import CulmSettings


def read_replica(url: str, settings: CulmSettings, silence_s: float) -> ReplicaCopy:
    """Read everything that the replica at an address holds; the replica receives no data.

    Raises `TransportError` if nobody answers, `CopyIncomplete` if not everything arrived.
    """
    from culm_connectors.chotki.dial import dialled
    from culm_connectors.chotki.reference_peer.copy import copy_replica

    chotki, transport = settings.connector.chotki, settings.connector.transport

    async def copied() -> ReplicaCopy:
        with counting(f"reading {safe(url)}") as count:

            def show(received_bytes: int) -> None:
                count(description=f"reading {safe(url)}: {received_bytes // 1_000:,} kB")

            async with dialled(url, _identity(settings), chotki.tls, transport) as channel:
                return await copy_replica(channel, silence_s=silence_s, progress=show)

    return asyncio.run(copied())


def _identity(settings: CulmSettings) -> Identity:
    """Return the connector's key if there is one, as peers may know it; else a random key."""
    from culm_connectors.edge.keyfile import KEY_FILE, load_key
    from culm_connectors.transport import Identity
    from culm_infra.settings import connector_directory

    folder = connector_directory(settings)
    has_key = (folder / KEY_FILE).exists()
    private_key = load_key(folder).private_key if has_key else secrets.token_bytes(32)
    return Identity.from_private_key(private_key)


def dump(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[ADDRESS]",
            help=f"A running replica instead: {ADDRESS_HELP}",
            autocompletion=complete_address,
        ),
    ] = None,
    *,
    directory: DataDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Print every field and vector as the Go replica dumps its store, so that `diff` compares them.

    The output is the deployment's state, or the store of the replica at an address, which is only read. With
    `--json` each record of the store is an object: its key and value in hex, and the value's text.

    Example: `culm chotki dump > ours.txt`, `culm chotki dump replica.example:4321 > theirs.txt`
    """
    if url is None:
        refuse(context, ["directory"], "is about a replica: give its ADDRESS")
        with whole_state(kafka.settings(), results) as reader:
            values = reader.state.store()
    else:
        refuse(context, KAFKA_FLAGS, "is about the deployment: a replica is read at its ADDRESS")
        address, settings = replica_address(url), kafka.load(connector={"directory": directory})
        _say_reading(address, kafka.patience_s)
        values = read_replica(address, settings, kafka.patience_s).store
    store = sorted(values.items())
    if results.json:
        for key, value in store:
            letter = chr(key[17])
            emit_json({"key": key, "type": letter, "text": print_field(letter, value), "value": value})
    else:
        sys.stdout.writelines(dump_lines(store))
        sys.stdout.flush()


_PAUSE_S = 1.0
_TEXT_LIMIT = 60


def _value(side: str) -> Cell:
    """Return a cell with a value cut to the width of a table; a dash for a missing field."""

    def text(row: Row) -> str:
        value = row[side]
        if value is None:
            return "–"
        return value if len(value) <= _TEXT_LIMIT else f"{value[: _TEXT_LIMIT - 1]}…"

    return text


def _vector_of(side: str) -> Cell:
    def text(row: Row) -> str:
        lacks = row["vector"][f"{side}_lacks"]
        return f"lacks {', '.join(lacks)}" if lacks else "whole"

    return text


_SIDES: Final = ("deployment", "replica")
BLOCKS: Final[Columns] = {
    "block": "block",
    "fields": "fields",
    **{f"{side} lacks": f"{side}_lacks" for side in _SIDES},
    **{f"{side}'s vector": _vector_of(side) for side in _SIDES},
}
FIELDS: Final[Columns] = {
    "field": lambda row: f"{row['id']}.{row['type']}",
    "who lacks": "lacks",
    **{side: _value(side) for side in _SIDES},
}


def verify(
    context: typer.Context,
    url: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", help=f"The replica: {ADDRESS_HELP}", autocompletion=complete_address
        ),
    ],
    *,
    settle_s: Annotated[
        float,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            min=0,
            help="Compare again until the difference has not changed for so long.",
        ),
    ] = 0.0,
    fields: Annotated[int, typer.Option(min=0, help="How many of the fields that differ are shown.")] = 20,
    directory: DataDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Compare a running replica with the deployment: vectors, and field by field.

    The replica is only read: it receives no data. Fields of type L are left out, since replicas differ in
    them by nature. Changes in transit count as differences: give --settle while edits are made. Over TLS the
    files of connector.chotki.tls are used, over QUIC the key in --dir is presented. Both sides are read into
    memory. Exit status 0: equal; 3: not.

    Example: `culm chotki verify replica.example:4321 --settle 30`
    """
    address = replica_address(url)
    if results.json:
        refuse(context, ["fields"], "--json prints all fields that differ")
    settings = kafka.load(connector={"directory": directory})
    _say_reading(address, kafka.patience_s)
    copy, epoch, comparison = _compared(address, settings, kafka.patience_s, results)
    patience = Patience(settle_s, lambda: (comparison.vector, comparison.blocks))
    while not comparison.are_equal and not patience.is_over():
        say(f"{sum(len(block.fields) for block in comparison.blocks)} fields differ yet: looking again")
        time.sleep(_PAUSE_S)
        copy, epoch, comparison = _compared(address, settings, kafka.patience_s, results)
    report = _as_json(address, copy, epoch, comparison)
    if results.json:
        emit_json(report)
    else:
        _show(report, shown_fields=fields)
    if not comparison.are_equal:
        if not settle_s:
            results.next(f"culm chotki verify {address} --settle 30", "culm chotki status")
        raise typer.Exit(EXIT_DEGRADED)


def _say_reading(address: str, silence_s: float) -> None:
    say(f"reading the replica at {safe(address)}, at most {silence_s:g} s without an answer (--timeout)")


def _compared(
    url: str, settings: CulmSettings, silence_s: float, results: Results
) -> tuple[ReplicaCopy, int, Comparison]:
    """Read the replica first: everything that it holds is then at least in transit to the deployment."""
    from culm_infra.settings import resolve_kafka

    copy = read_replica(url, settings, silence_s)
    with whole_state(resolve_kafka(settings), results) as reader:
        epoch, store = reader.state.epoch, reader.state.store()
    return copy, epoch, compare(store, copy.store)


def _as_json(url: str, copy: ReplicaCopy, epoch: int, comparison: Comparison) -> dict[str, Any]:

    return {
        "replica": url,
        "source": f"{copy.t.src:x}",
        "traces": copy.traces,
        "epoch": epoch,
        "equal": comparison.are_equal,
        "compared_fields": comparison.compared,
        "left_out_fields": comparison.left_out,
        "received_bytes": copy.received_bytes,
        "unreadable": [{"id": str(id), "type": letter} for id, letter in copy.unreadable],
        "vector": _vector(comparison.vector),
        "blocks": [
            {
                "block": str(block.block),
                "fields": len(block.fields),
                "deployment_lacks": block.missing_count(Side.OURS),
                "replica_lacks": block.missing_count(Side.THEIRS),
                "vector": _vector(block.vector),
            }
            for block in comparison.blocks
        ],
        "fields": [_field(field) for block in comparison.blocks for field in block.fields],
    }


def _vector(difference: VectorDifference) -> dict[str, list[str]]:
    return {
        "deployment_lacks": vector_texts(difference.missing_in_ours),
        "replica_lacks": vector_texts(difference.missing_in_theirs),
    }


def _field(difference: FieldDifference) -> dict[str, Any]:

    texts = (
        None if value is None else print_field(difference.letter, value)
        for value in (difference.ours, difference.theirs)
    )
    deployment, replica = texts
    lacks = {Side.OURS: "deployment", Side.THEIRS: "replica", Side.BOTH: "both"}[difference.missing_in]
    return {
        "id": str(difference.id),
        "type": difference.letter,
        "deployment": deployment,
        "replica": replica,
        "lacks": lacks,
    }


def _show(report: dict[str, Any], *, shown_fields: int) -> None:
    lacks = [
        {"side": side, "lacks": report["vector"][f"{side}_lacks"]}
        for side in _SIDES
        if report["vector"][f"{side}_lacks"]
    ]
    if lacks:
        table("vectors", {"side": "side", "lacks, up to": "lacks"}, lacks)
    if report["blocks"]:
        table("blocks", BLOCKS, report["blocks"])
    fields = report["fields"]
    if fields and shown_fields:
        shown = fields[:shown_fields]
        title = "fields" if len(shown) == len(fields) else f"fields ({len(shown)} of {len(fields)})"
        table(title, FIELDS, shown)
    for field in report["unreadable"]:
        say(f"[yellow]left out at the replica, since it does not parse: {field['id']}.{field['type']}[/]")
    lists = f", {report['left_out_fields']:,} lists left out" if report["left_out_fields"] else ""
    outcome = "[green]the same[/]" if report["equal"] else "[bold red]they differ[/]"
    say(f"{outcome}: {report['compared_fields']:,} fields compared{lists}, as of epoch {report['epoch']}")
