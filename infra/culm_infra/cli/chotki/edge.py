"""``culm chotki listen``, ``connect`` and ``tap``: an edge that speaks with replicas, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.completion import complete_compat, complete_mode, complete_url
from culm_infra.cli.options import KafkaFlags, spread

TAP_MODE = 5

Addresses = Annotated[
    list[str],
    typer.Argument(metavar="URL...", help="tcp://, tls:// or quic://HOST:PORT.", autocompletion=complete_url),
]
Source = Annotated[
    str | None,
    typer.Option("--source", help="Own source in hex; by default its own, else a free one."),
]
Name = Annotated[str | None, typer.Option("--name", help="What this replica says that it is called.")]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="0…7|r|rw|rl|rwl|…",
        help="1 read, 2 write, 4 live, added up or by their letters; 7, rwl, by default.",
        autocompletion=complete_mode,
    ),
]
Compat = Annotated[
    str | None,
    typer.Option(
        "--compat", help="default, or go: the Go replica's own ways.", autocompletion=complete_compat
    ),
]


@spread
def listen(
    urls: Addresses,
    *,
    source: Source = None,
    name: Name = None,
    mode: Mode = None,
    compat: Compat = None,
    directory: options.ConnectorDirectory = None,
    metrics_port: options.MetricsPort = None,
    kafka: KafkaFlags,
    log_format: options.LogFormat = None,
    json: options.Json = False,
) -> None:
    """Serve replicas until interrupted; what they bring is merged by the job chotki.

    Example: `culm chotki listen tcp://0.0.0.0:4321`
    """
    chotki = {"listen": urls, "source": source, "name": name, "mode": _mode(mode), "compat": compat}
    _run(kafka, chotki, directory, metrics_port, log_format, json=json)


@spread
def connect(
    urls: Addresses,
    *,
    source: Source = None,
    name: Name = None,
    mode: Mode = None,
    compat: Compat = None,
    directory: options.ConnectorDirectory = None,
    metrics_port: options.MetricsPort = None,
    kafka: KafkaFlags,
    log_format: options.LogFormat = None,
    json: options.Json = False,
) -> None:
    """Keep a connection to replicas until interrupted.

    Example: `culm chotki connect tls://replica.example:4321`
    """
    chotki = {"connect": urls, "source": source, "name": name, "mode": _mode(mode), "compat": compat}
    _run(kafka, chotki, directory, metrics_port, log_format, json=json)


@spread
def tap(
    urls: Addresses,
    *,
    compat: Compat = None,
    directory: options.ConnectorDirectory = None,
    metrics_port: options.MetricsPort = None,
    kafka: KafkaFlags,
    log_format: options.LogFormat = None,
    json: options.Json = False,
) -> None:
    """Read what replicas hold and do, and write nothing to them: the first step for a tree that runs.

    Example: `culm chotki tap tcp://replica.example:4321`
    """
    chotki = {"connect": urls, "mode": TAP_MODE, "compat": compat}
    _run(kafka, chotki, directory, metrics_port, log_format, json=json)


def _mode(text: str | None) -> int | None:
    """The bits of a mode, by their sum or their letters; anything else is an error of usage."""
    from culm_models.chotki.packets.handshake import MODE_MAX, MODES

    if text is None:
        return None
    if text in MODES:
        return MODES[text]
    if text.isdecimal() and int(text) <= MODE_MAX:
        return int(text)
    raise typer.BadParameter(
        f"{text!r} is no mode: give 0 to {MODE_MAX}, or one of {', '.join(MODES)}", param_hint="--mode"
    )


def _run(
    kafka: KafkaFlags,
    chotki: Mapping[str, object],
    directory: object,
    metrics_port: int | None,
    log_format: object,
    *,
    json: bool,
) -> None:
    from culm_infra.cli.connector import connector_settings, run_connector
    from culm_infra.cli.log_lines import set_up
    from culm_infra.settings import resolve_kafka

    settings = kafka.load(
        log_format=log_format,
        connector={
            "listen": "none",
            "directory": directory,
            "metrics_port": metrics_port,
            "chotki": dict(chotki),
        },
    )
    set_up(settings.log_format)
    asyncio.run(
        run_connector(connector_settings(settings), resolve_kafka(settings), json=json, only="chotki")
    )
