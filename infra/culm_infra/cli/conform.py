"""``culm conform``: drive the protocol models with one JSON object per line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from culm_infra.cli.kit.options import refuse
from culm_infra.cli.kit.output import Results


def conform(
    context: typer.Context,
    *,
    list_operations: Annotated[
        bool, typer.Option("--list", help="Print every operation with its arguments.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON Lines: one object for each operation; goes with --list."),
    ] = False,
    big_ints_as_text: Annotated[
        bool,
        typer.Option(
            "--big-ints-as-text",
            help="Answer integers beyond 2^53 - 1 as strings, for callers whose JSON numbers are doubles.",
        ),
    ] = False,
) -> None:
    """Answer each line of standard input, a JSON object, with one JSON object, until the input ends.

    Example: echo '{"id": 1, "do": "varu64.encode", "n": 300}' | culm conform
    """
    from culm_models.conform.dispatch import LINE_BYTES_MAX, OPERATIONS, Conformance

    if list_operations:
        refuse(context, ["big_ints_as_text"], "--list answers nothing")
        rows = [
            {"do": operation.name, "arguments": operation.arguments, "ok": operation.answer}
            for operation in OPERATIONS
        ]
        Results(json=json).rows(rows, ("do", "arguments", "ok"))
        return
    refuse(context, ["json"], "answers are JSON always: goes with --list")
    conformance = Conformance(big_integers_as_text=big_ints_as_text)
    source, sink = sys.stdin.buffer, sys.stdout
    while line := source.readline(LINE_BYTES_MAX + 2):
        if len(line) > LINE_BYTES_MAX:
            # The rest of an oversized line belongs to it and is skipped.
            while not line.endswith(b"\n") and (rest := source.readline(1 << 20)):
                line = line[: LINE_BYTES_MAX + 1] + rest[-1:]
        sink.write(conformance.answer_line(line) + "\n")
        sink.flush()
