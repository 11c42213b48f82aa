"""``culm demo``: the main job, seen, in under two minutes; and a demo of each further protocol."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer

from culm_infra.protocols import DEMOS

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    help="The main job, seen, in about a minute and a half.",
)


def _load(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"culm_infra.cli.{module}"), attribute)


_first, *_others = DEMOS
app.callback()(_load(DEMOS[_first]))
for _name in _others:
    app.command(_name)(_load(DEMOS[_name]))
