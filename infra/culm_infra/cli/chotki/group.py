"""``culm chotki``: objects that replicas merge, one module for each command."""

from __future__ import annotations

import typer

from culm_infra.cli.chotki.edge import connect, listen, tap
from culm_infra.cli.chotki.objects.classes import class_
from culm_infra.cli.chotki.objects.edit import edit
from culm_infra.cli.chotki.objects.export import export
from culm_infra.cli.chotki.objects.get import get
from culm_infra.cli.chotki.objects.new import new
from culm_infra.cli.chotki.operations.dump import dump
from culm_infra.cli.chotki.operations.sources import retire, sources
from culm_infra.cli.chotki.operations.status import status
from culm_infra.cli.chotki.operations.verify import verify

app = typer.Typer(
    no_args_is_help=True,
    help="Chotki's objects: make, change and read them, and see how replicas stand.",
)

for name, command in {
    "listen": listen,
    "connect": connect,
    "tap": tap,
    "class": class_,
    "new": new,
    "edit": edit,
    "get": get,
    "dump": dump,
    "export": export,
    "status": status,
    "sources": sources,
    "retire": retire,
    "verify": verify,
}.items():
    app.command(name)(command)
