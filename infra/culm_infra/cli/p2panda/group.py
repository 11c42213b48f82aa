"""``culm p2panda``: what speaks p2panda's protocol."""

from __future__ import annotations

import typer

from culm_infra.cli.p2panda import peer

app = typer.Typer(no_args_is_help=True, help="Peers that speak p2panda's protocol.")


@app.callback()
def p2panda() -> None:
    """Peers that speak p2panda's protocol."""


app.add_typer(peer.app, name="peer")
