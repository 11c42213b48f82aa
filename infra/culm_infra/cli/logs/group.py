"""``culm logs``: the replicated logs, what peers hold of them, and a connector's index of them."""

from __future__ import annotations

import typer

from culm_infra.cli.logs import index
from culm_infra.cli.logs.blocks import blocks
from culm_infra.cli.logs.entries import export, list_, tail
from culm_infra.cli.logs.peers import peers, vv
from culm_infra.cli.logs.repair import repair

app = typer.Typer(
    no_args_is_help=True,
    help="The replicated logs: follow, list, export; what peers hold of them, and a connector's index.",
)

for name, command in {
    "tail": tail,
    "list": list_,
    "export": export,
    "peers": peers,
    "vv": vv,
    "blocks": blocks,
    "repair": repair,
}.items():
    app.command(name)(command)
app.add_typer(index.app, name="index")
