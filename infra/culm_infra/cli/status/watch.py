"""The option `--watch` of commands that show a state: show it again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from culm_infra.cli.kit.output import EXIT_DEGRADED, out

Watch = Annotated[
    float | None,
    typer.Option("--watch", metavar="SECONDS", min=0.1, max=86_400, help="Show it again after so long."),
]


def watched(show: Callable[[], bool], watch_s: float | None, *, json: bool) -> None:
    """Call `show`, which returns whether all is well, once or until interrupted.

    Raises `typer.Exit` with status 3 if it is called once and not all is well.
    """
    is_well = show()
    while watch_s is not None:
        time.sleep(watch_s)
        if not json:
            out.print()
        show()
    if not is_well:
        raise typer.Exit(EXIT_DEGRADED)
