"""``culm chotki listen``, ``connect`` and ``tap``: an edge that serves replicas, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

import typer

from culm_infra.cli.chotki.address import ADDRESS_HELP, complete_address, replica_address
from culm_infra.cli.chotki.completion import complete_compat, complete_mode
from culm_infra.cli.connector import connector_settings, run_connector
from culm_infra.cli.kit import options
from culm_infra.cli.kit.data_folder import DataDirectory
from culm_infra.cli.kit.options import ClusterFlags
from culm_infra.cli.kit.output import Results
from culm_models.chotki.packets.handshake import MODE_MAX, MODES

TAP_MODE = 5

Addresses = Annotated[
    list[str],
    typer.Argument(metavar="ADDRESS...", help=ADDRESS_HELP, autocompletion=complete_address),
]
Source = Annotated[
    str | None,
    typer.Option("--source", help="Own source in hex; by default its own, else a free one."),
]
ReplicaName = Annotated[
    str | None, typer.Option("--replica-name", help="The name that this replica announces.")
]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Options of an edge for replicas."""

    compat: Compat = None
    directory: DataDirectory = None
    metrics_port: options.MetricsPort = None
    log_format: options.LogFormat = None

    def run(self, kafka: ClusterFlags, results: Results, **chotki: object) -> None:
        """Run the edge with these settings of Chotki until it is interrupted."""
        from culm_infra.cli.kit.log_lines import set_up
        from culm_infra.settings import resolve_kafka

        settings = kafka.load(
            log_format=self.log_format,
            connector={
                "listen": "none",
                "directory": self.directory,
                "metrics_port": self.metrics_port,
                "chotki": {"compat": self.compat, **chotki},
            },
        )
        set_up(settings.log_format)
        reached = resolve_kafka(settings)
        asyncio.run(run_connector(connector_settings(settings), reached, json=results.json, only="chotki"))


def listen(
    urls: Addresses,
    *,
    source: Source = None,
    replica_name: ReplicaName = None,
    mode: Mode = None,
    edge: Edge,
    kafka: ClusterFlags,
    results: Results,
) -> None:
    """Serve replicas until interrupted; the job chotki merges their changes.

    Example: `culm chotki listen 0.0.0.0:4321`
    """
    edge.run(kafka, results, listen=_all(urls), source=source, name=replica_name, mode=_mode(mode))


def connect(
    urls: Addresses,
    *,
    source: Source = None,
    replica_name: ReplicaName = None,
    mode: Mode = None,
    edge: Edge,
    kafka: ClusterFlags,
    results: Results,
) -> None:
    """Keep a connection to replicas until interrupted.

    Example: `culm chotki connect tls://replica.example:4321`
    """
    edge.run(kafka, results, connect=_all(urls), source=source, name=replica_name, mode=_mode(mode))


def tap(urls: Addresses, *, edge: Edge, kafka: ClusterFlags, results: Results) -> None:
    """Read the state and the changes of replicas and write nothing to them: the first step for a running
    tree.

    Example: `culm chotki tap replica.example:4321`
    """
    edge.run(kafka, results, connect=_all(urls), mode=TAP_MODE)


def _all(addresses: list[str]) -> list[str]:
    return [replica_address(address) for address in addresses]


def _mode(text: str | None) -> int | None:
    """Parse a mode: the sum of its bits, or their letters. Raises `typer.BadParameter`."""
    if text is None:
        return None
    if text in MODES:
        return MODES[text]
    if text.isdecimal() and int(text) <= MODE_MAX:
        return int(text)
    raise typer.BadParameter(
        f"{text!r} is no mode: give 0 to {MODE_MAX}, or one of {', '.join(MODES)}", param_hint="--mode"
    )
