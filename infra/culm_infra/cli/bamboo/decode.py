"""``culm bamboo decode``: captured bytes, explained line by line."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from culm_infra.cli.bamboo.folder import parse_flavour
from culm_infra.cli.options import words
from culm_infra.cli.output import EXIT_FAILED, Results, emit_json, out, safe

_CHANNELS = ("control", "data", "bymux")


def decode(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            allow_dash=True,
            help="Bytes of one direction, from the beginning on; - is standard input.",
        ),
    ],
    *,
    channel: Annotated[
        str,
        typer.Option(help="control, data, or bymux (both, as over TCP).", autocompletion=words(*_CHANNELS)),
    ] = "control",
    setup: Annotated[
        bool, typer.Option("--setup/--no-setup", help="Whether the bytes begin with the setup.")
    ] = True,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="The file holds hex digits.")] = False,
    flavour: Annotated[str, typer.Option(help="yamf or yasmf.")] = "yamf",
    results: Results,
) -> None:
    """Explain what was captured of a connection: every message with its place, its size and its fields.

    `culm bamboo sync --trace FOLDER` captures. Exit status 1: the bytes break a rule.

    Example: `culm bamboo decode trace/data-received --channel data`
    """
    from culm_connectors.bamboo_p2p.captured import Captured, explain

    if channel not in _CHANNELS:
        raise typer.BadParameter(f"{channel!r} is no channel: write {', '.join(_CHANNELS)}")
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    if hexadecimal:
        try:
            data = bytes.fromhex(data.decode("ascii"))
        except ValueError:
            raise typer.BadParameter(f"{file} holds something else than hex digits") from None
    hashes = parse_flavour(flavour)
    assert hashes is not None, "a name was given"
    is_broken = False
    for line in explain(data, Captured(channel), hashes, has_setup=setup):
        is_broken = is_broken or line.message == "Broken"
        if results.json:
            emit_json(asdict(line))
        else:
            fields = "  ".join(f"{name}={_text(value)}" for name, value in line.fields.items())
            place = f"{line.channel:7} {line.offset:>8} {line.size:>6}"
            out.print(f"{place}  [bold]{line.message}[/]  {safe(fields, 2_000)}")
    if is_broken:
        raise typer.Exit(EXIT_FAILED)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return value.name.lower() if isinstance(value, Enum) else str(value)
