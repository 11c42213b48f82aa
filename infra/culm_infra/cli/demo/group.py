"""``culm demo``: the main job, seen, in under two minutes; and a demo of each further protocol."""

from __future__ import annotations

import typer

from culm_infra.cli.p2panda.demo import demo
from culm_infra.cli.sds.demo import demo as sds_demo

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    help="The main job, seen, in about a minute and a half.",
)
app.callback()(demo)
app.command("sds")(sds_demo)
