"""What `verify` and `dump` share: a running replica read whole, by its address."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.connector import home
from culm_infra.cli.output import counting, safe

if TYPE_CHECKING:
    from culm_connectors.chotki.reference_peer.copy import ReplicaCopy
    from culm_connectors.transport import Identity
    from culm_infra.settings import Settings

Silence = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds for which the replica may say nothing.")
]
Key = options.ConnectorDirectory


def check_address(url: str) -> None:
    """An address that is none is an error of usage."""
    from culm_connectors.transport.url import parse_url

    try:
        parse_url(url)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="URL") from error


def read_replica(url: str, settings: Settings, silence_s: float) -> ReplicaCopy:
    """Everything that the replica at an address holds; it is told nothing, and keeps nothing of it.

    Raises `TransportError` where nobody answers, `CopyIncomplete` where not everything came.
    """
    from culm_connectors.chotki.dial import dialled
    from culm_connectors.chotki.reference_peer.copy import copy_replica

    chotki, transport = settings.connector.chotki, settings.connector.transport

    async def copied() -> ReplicaCopy:
        with counting(f"reading {safe(url)}") as count:

            def show(received_bytes: int) -> None:
                count(description=f"reading {safe(url)}: {received_bytes // 1_000:,} kB")

            async with dialled(url, _identity(settings), chotki.tls, transport) as channel:
                return await copy_replica(channel, silence_s=silence_s, progress=show)

    return asyncio.run(copied())


def _identity(settings: Settings) -> Identity:
    """The connector's key where there is one, so that whoever lets its edge in lets this in: else any."""
    from culm_connectors.edge.keyfile import KEY_FILE, load_key
    from culm_connectors.transport import Identity

    folder = home(settings)
    has_key = (folder / KEY_FILE).exists()
    private_key = load_key(folder).private_key if has_key else secrets.token_bytes(32)
    return Identity.from_private_key(private_key)
