"""``culm bamboo``: Bamboo logs in a folder, one module for each command."""

from __future__ import annotations

import typer

from culm_infra.cli.bamboo.publish import publish
from culm_infra.cli.bamboo.serve import serve
from culm_infra.cli.bamboo.sync import sync

app = typer.Typer(
    no_args_is_help=True,
    help="Bamboo logs in a folder: publish, and exchange whole logs or parts of them with other folders.",
)

for name, command in {"publish": publish, "sync": sync, "serve": serve}.items():
    app.command(name)(command)
