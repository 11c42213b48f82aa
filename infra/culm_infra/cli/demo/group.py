"""``culm demo``: the main job, seen, in under two minutes; and a demo of each further protocol."""

from __future__ import annotations

import typer

from culm_infra.cli.loading import load
from culm_infra.protocols import DEMOS

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    help="The main job, seen, in about a minute and a half.",
)

_first, *_others = DEMOS
app.callback()(load(DEMOS[_first]))
for _name in _others:
    app.command(_name)(load(DEMOS[_name]))
