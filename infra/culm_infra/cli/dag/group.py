"""``culm dag``: files and directories as DAGs in a folder, one line for each command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import typer

from culm_infra.cli.dag.bundle import export, import_
from culm_infra.cli.dag.dropping import collect, drop
from culm_infra.cli.dag.exchange import serve, sync
from culm_infra.cli.dag.get import get
from culm_infra.cli.dag.joining import join
from culm_infra.cli.dag.looking import log, resolve, status
from culm_infra.cli.dag.publishing import delegate, publish, revoke
from culm_infra.cli.dag.put import put

app = typer.Typer(
    no_args_is_help=True,
    help="Files and directories as content-addressed DAGs: put, publish, and exchange with other folders.",
)

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "put": put,
    "get": get,
    "status": status,
    "join": join,
    "publish": publish,
    "delegate": delegate,
    "revoke": revoke,
    "resolve": resolve,
    "log": log,
    "export": export,
    "import": import_,
    "collect": collect,
    "drop": drop,
    "sync": sync,
    "serve": serve,
}

for name, command in COMMANDS.items():
    app.command(name)(command)
