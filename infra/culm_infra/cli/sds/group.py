"""``culm sds``: channels of SDS, one module for each command."""

from __future__ import annotations

import typer

from culm_infra.cli.sds.fetch import fetch
from culm_infra.cli.sds.join import join
from culm_infra.cli.sds.reset_clock import reset_clock
from culm_infra.cli.sds.send import send
from culm_infra.cli.sds.status import status
from culm_infra.cli.sds.tail import tail
from culm_infra.cli.sds.transfer import transfer

app = typer.Typer(
    no_args_is_help=True,
    help="Channels of SDS: what is said in them, how they stand, and messages out of the store.",
)

for command in (join, send, tail, status, fetch, transfer, reset_clock):
    app.command()(command)
