"""``culm bamboo publish``: the next entry of an own log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli.bamboo.folder import DEFAULT_FOLDER, Flavour, Folder, log_name, made_flavour, open_folder
from culm_infra.cli.output import Results
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
    """Sign the next entries of an own log, and keep them in the folder; a key is made where there is none.

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
    for held in entries:
        entry = held.entry
        name = log_name((entry.public_key, entry.log_id))
        ends = ", which ends the log" if entry.end_of_log else ""
        results.one(
            {
                "log": name,
                "seq_num": entry.seq_num,
                "hash": held.hash,
                "payload_size": entry.payload_size,
                "end_of_log": entry.end_of_log,
            },
            f"{name} entry {entry.seq_num}, {entry.payload_size:,} bytes{ends}",
        )
