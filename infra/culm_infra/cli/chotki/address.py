"""Addresses of replicas on the command line: `[SCHEME://]HOST:PORT`, over TCP unless there is a scheme."""

from __future__ import annotations

from typing import Final

import typer

from culm_infra.cli.kit.options import words

ADDRESS_HELP: Final = "HOST:PORT over TCP, or with a scheme: tcp://, tls:// or quic://."
complete_address = words("tcp://", "tls://", "quic://")


def replica_address(text: str) -> str:
    """Return an address with its scheme. Raises `typer.BadParameter` if it is malformed."""
    from culm_connectors.chotki.settings import DEFAULT_SCHEME
    from culm_connectors.url import parse_url

    try:
        return str(parse_url(text, default=DEFAULT_SCHEME))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="ADDRESS") from error
