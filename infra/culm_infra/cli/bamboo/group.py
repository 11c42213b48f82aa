"""``culm bamboo``: Bamboo logs in a folder, one line for each command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import typer

from culm_infra.cli.bamboo.bundle import drop, export, import_
from culm_infra.cli.bamboo.decode import decode
from culm_infra.cli.bamboo.looking import coverage, proposals, verify
from culm_infra.cli.bamboo.publish import publish
from culm_infra.cli.bamboo.rules import pause, policy, resume
from culm_infra.cli.bamboo.serve import serve
from culm_infra.cli.bamboo.sync import sync

app = typer.Typer(
    no_args_is_help=True,
    help="Bamboo logs in a folder: publish, and exchange whole logs or parts of them with other folders.",
)

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "publish": publish,
    "sync": sync,
    "serve": serve,
    "policy": policy,
    "pause": pause,
    "resume": resume,
    "proposals": proposals,
    "coverage": coverage,
    "verify": verify,
    "drop": drop,
    "export": export,
    "import": import_,
    "decode": decode,
}

for name, command in COMMANDS.items():
    app.command(name)(command)
