"""``culm bamboo publish``, ``export``, ``import`` and ``drop``: entries of a log, and their payloads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli.bamboo.folder import (
    DEFAULT_FOLDER,
    End,
    Flavour,
    Folder,
    OneLog,
    Start,
    check_range,
    log_name,
    made_flavour,
    open_folder,
    parse_log,
)
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting
from culm_models.varu64 import MAX_VALUE


def publish(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]…", help="Payloads; without any, see --file.")
    ] = None,
    *,
    folder: Folder = DEFAULT_FOLDER,
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
    with open_folder(folder, made_flavour(folder, flavour)) as store:
        key_pair = load_or_make_key(folder)
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


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What is written; nothing may be there.")],
    *,
    folder: Folder = DEFAULT_FOLDER,
    log: OneLog = "0",
    start: Start = 1,
    end: End = None,
    payloads: Annotated[bool, typer.Option("--payloads/--no-payloads", help="With payloads.")] = True,
    results: Results,
) -> None:
    """Write a range of a log, the entries that prove it, and its payloads into one file.

    If the log is known to be forked, the two entries that prove the fork are included.

    Example: `culm bamboo export stick.bamboo --log KEY/0 --from 1 --to 100`
    """
    from culm_connectors.bamboo_p2p.bundle import export as exported

    check_range(start, end)
    with open_folder(folder) as store:
        key = parse_log(log, folder)
        with new_path(file) as fresh, fresh.open("xb") as target, counting("entries") as count:
            entries = 0
            for _ in exported(store, target, key, start=start, end=end, payloads=payloads):
                entries += 1
                count(completed=entries)
    size = file.stat().st_size
    row = {"log": log_name(key), "file": str(file), "entries": entries, "bytes": size}
    results.one(row, f"{entries:,} entries, {size:,} bytes")


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="What `export` has written.")
    ],
    *,
    folder: Folder = DEFAULT_FOLDER,
    flavour: Flavour = None,
    results: Results,
) -> None:
    """Import the contents of a file, checked like data from a connection. Exit status 3: part was refused.

    Example: `culm bamboo import stick.bamboo --dir theirs`
    """
    from dataclasses import asdict

    from culm_connectors.bamboo_p2p.bundle import BundleImport, import_bundle
    from culm_connectors.bamboo_p2p.errors import BundleError

    damage: BundleError | None = None
    imported = BundleImport()
    with (
        open_folder(folder, made_flavour(folder, flavour)) as store,
        file.open("rb") as source,
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
    if imported.refused:
        raise typer.Exit(EXIT_DEGRADED)


def drop(
    *,
    folder: Folder = DEFAULT_FOLDER,
    log: OneLog = "0",
    start: Start = 1,
    end: End = None,
    results: Results,
) -> None:
    """Delete payloads of a range and keep the entries; peers learn that these payloads are not held.

    Example: `culm bamboo drop --log KEY/0 --from 1 --to 1000`
    """
    check_range(start, end)
    with open_folder(folder) as store:
        key = parse_log(log, folder)
        with store.exclusively():
            last = end or store.highest_entry(key)
            seq_nums = [n for n in store.held_between(key, start, last) if store.has_payload(key, n)]
            freed = sum(store.drop_payload(key, seq_num) for seq_num in seq_nums)
    row = {"log": log_name(key), "payloads": len(seq_nums), "bytes": freed}
    results.one(row, f"{len(seq_nums):,} payloads deleted, {freed:,} bytes")
