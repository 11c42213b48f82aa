"""``culm bamboo publish``, ``export``, ``import`` and ``drop``: entries of a log, and their payloads."""

from __future__ import annotations

import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from culm_infra.cli.bamboo.folder import (
    First,
    Flavour,
    Last,
    LogFolderFlags,
    OneLog,
    check_range,
    log_name,
    parse_log,
)
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting
from culm_models.varu64 import MAX_VALUE

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.store.folder_store import FolderStore

STANDARD: Final = Path("-")
"""Stands for standard output or standard input."""


def publish(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]…", help="Payloads; without any, see --file.")
    ] = None,
    *,
    flags: LogFolderFlags,
    log_id: Annotated[int, typer.Option(min=0, max=MAX_VALUE, help="Which of the own logs.")] = 0,
    file: Annotated[
        list[Path] | None,
        typer.Option(help="A file as payload; - is standard input. Repeatable.", allow_dash=True),
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="The last of these entries ends the log.")] = False,
    flavour: Flavour = None,
    results: Results,
) -> None:
    """Sign the next entries of an own log and store them in the folder; a missing key is created.

    A peer that serves the folder sends them on at once.

    Example: `culm bamboo publish "hello"`; `culm bamboo publish --file film.mp4 --log-id 2`;
    `culm bamboo publish --end "the last word"`
    """
    from culm_connectors.bamboo_p2p.author import publish as publish_entry
    from culm_connectors.edge.keyfile import load_or_make_key

    payloads = [text.encode() for text in texts or []]
    payloads += [sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes() for path in file or []]
    if not payloads:
        raise typer.BadParameter("nothing to publish: give a TEXT, or --file")
    with flags.create(flavour) as store:
        key_pair = load_or_make_key(flags.path)
        with store.exclusively():
            entries = [
                publish_entry(
                    store, key_pair, log_id, payload, end_of_log=end and number == len(payloads) - 1
                )
                for number, payload in enumerate(payloads)
            ]
    for stored in entries:
        entry = stored.entry
        name = log_name((entry.public_key, entry.log_id))
        ends = ", which ends the log" if entry.end_of_log else ""
        results.one(
            {
                "log": name,
                "seq_num": entry.seq_num,
                "hash": stored.hash,
                "payload_size": entry.payload_size,
                "end_of_log": entry.end_of_log,
            },
            f"{name} entry {entry.seq_num}, {entry.payload_size:,} bytes{ends}",
        )
    results.next(flags.command("culm bamboo serve 127.0.0.1:4400"))


def export(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            allow_dash=True,
            help="A new file; - is standard output, the default.",
        ),
    ] = STANDARD,
    flags: LogFolderFlags,
    log: OneLog = "0",
    first: First = 1,
    last: Last = None,
    payloads: Annotated[bool, typer.Option("--payloads/--no-payloads", help="With payloads.")] = True,
    results: Results,
) -> None:
    """Write a range of a log, the entries that prove it, and its payloads as one stream, into a file or not.

    If the log is known to be forked, the two entries that prove the fork are included. With --json, which
    requires a file, the result is described.

    Example: `culm bamboo export --log KEY/0 --first 1 --last 100 -o stick.bamboo`
    """
    from culm_connectors.bamboo_p2p.bundle import export as exported

    check_range(first, last)
    is_file = output != STANDARD
    if not is_file and results.json:
        raise typer.BadParameter("standard output carries the export: name a file by -o", param_hint="--json")
    if not is_file and sys.stdout.isatty():
        raise typer.BadParameter("an export is binary, and this is a terminal", param_hint="--output")

    def write(store: FolderStore, target: BinaryIO) -> int:
        entries = 0
        with counting("entries") as count:
            for _ in exported(store, target, key, start=first, end=last, payloads=payloads):
                entries += 1
                count(completed=entries)
        return entries

    with flags.open() as store:
        key = parse_log(log, flags.path)
        if not is_file:
            write(store, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with new_path(output) as fresh, fresh.open("xb") as target:
            entries = write(store, target)
    size = output.stat().st_size
    row = {"log": log_name(key), "file": str(output), "entries": entries, "bytes": size}
    results.one(row, f"{entries:,} entries, {size:,} bytes")
    results.next(f"culm bamboo import {shlex.quote(str(output))} --dir other")


def import_(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            allow_dash=True,
            help="What `export` has written; - is standard input.",
        ),
    ],
    *,
    flags: LogFolderFlags,
    flavour: Flavour = None,
    results: Results,
) -> None:
    """Import the contents of a file, checked like data from a connection. Exit status 3: part was refused.

    Example: `culm bamboo import stick.bamboo --dir theirs`
    """
    from dataclasses import asdict

    from culm_connectors.bamboo_p2p.bundle import BundleImport, import_bundle
    from culm_connectors.bamboo_p2p.errors import BundleError

    if path != STANDARD and not path.is_file():
        raise typer.BadParameter(f"there is no file {str(path)[:200]!r}", param_hint="PATH")
    damage: BundleError | None = None
    imported = BundleImport()
    with (
        flags.create(flavour) as store,
        _open_bundle(path) as source,
        counting("entries") as count,
        store.exclusively(),
    ):
        try:
            for number, _ in enumerate(import_bundle(store, source, imported), 1):
                count(completed=number)
        except BundleError as error:
            # Everything before the damage is verified and kept.
            damage = error
    results.one(
        asdict(imported),
        f"new: {imported.new_entries:,} entries, {imported.new_payloads:,} payloads; "
        f"known: {imported.known_entries:,} entries, {imported.known_payloads:,} payloads; "
        f"refused: {imported.refused.total():,}",
    )
    if imported.new_proofs:
        results.say(f"[bold red]{imported.new_proofs:,} logs are forked[/]: the proofs are kept")
    for code, number in imported.refused.items():
        results.say(f"[yellow]{number:,} refused: {code}[/]")
    if damage is not None:
        raise damage
    results.next(flags.command("culm bamboo status"))
    if imported.refused:
        raise typer.Exit(EXIT_DEGRADED)


def _open_bundle(path: Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path == STANDARD else path.open("rb")


def drop(
    *,
    flags: LogFolderFlags,
    log: OneLog = "0",
    first: First = 1,
    last: Last = None,
    results: Results,
) -> None:
    """Delete payloads of a range and keep the entries; peers learn that these payloads are not held.

    Example: `culm bamboo drop --log KEY/0 --last 1000`
    """
    check_range(first, last)
    with flags.open() as store:
        key = parse_log(log, flags.path)
        with store.exclusively():
            stored = store.held_between(key, first, last or store.highest_entry(key))
            seq_nums = [seq_num for seq_num in stored if store.has_payload(key, seq_num)]
            freed = sum(store.drop_payload(key, seq_num) for seq_num in seq_nums)
    row = {"log": log_name(key), "payloads": len(seq_nums), "bytes": freed}
    results.one(row, f"{len(seq_nums):,} payloads deleted, {freed:,} bytes")
