"""``culm connector``: a connector process at a network edge, between peers over QUIC and Kafka."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from culm_connectors.url import address_text
from culm_infra.cli.kit import options
from culm_infra.cli.kit.data_folder import DataDirectory, make_data_folder
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import ClusterFlags, StackFlags, refuse
from culm_infra.cli.kit.output import Results, emit_json, err, progress, safe, say, show_progress
from culm_infra.cli.kit.reaching import announced_wait

if TYPE_CHECKING:
    from culm_connectors.settings import ConnectorSettings
    from culm_connectors.transport import Address
    from culm_connectors.transport.libp2p.multiaddr import Multiaddr
    from culm_infra.settings import CulmSettings


def run(
    context: typer.Context,
    *,
    listen: Annotated[
        str | None,
        typer.Option(metavar="[quic://]HOST:PORT", help="Where to serve QUIC; `none` disables it."),
    ] = None,
    dial: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[quic://]HOST:PORT",
            help="A peer to keep a connection to, or a node by its multiaddr; repeatable.",
        ),
    ] = None,
    listen_libp2p: Annotated[
        str | None, typer.Option(metavar="[quic://]HOST:PORT", help="Where to accept nodes over libp2p.")
    ] = None,
    directory: DataDirectory = None,
    schema: Annotated[
        list[str] | None, typer.Option(help="A schema id to serve, `*` for all; repeatable.")
    ] = None,
    allow_list: Annotated[
        Path | None, typer.Option(help="TOML or JSON file of peers and their schemas.")
    ] = None,
    datagram_size: options.DatagramSize = None,
    trust_connectors: Annotated[
        bool,
        typer.Option("--trust-connectors", help="Do not verify signatures that other connectors verified."),
    ] = False,
    serve_at_once: Annotated[
        bool, typer.Option("--serve-at-once", help="Serve peers while `logs` is still being read.")
    ] = False,
    mode: options.SyncMode = None,
    latency: options.Latency = False,
    metrics_port: options.MetricsPort = None,
    metrics_host: Annotated[str | None, typer.Option(help="Where to serve metrics and health.")] = None,
    kafka: ClusterFlags,
    log_format: options.LogFormat = None,
    results: Results,
) -> None:
    """Run one connector until it is interrupted; SIGHUP reads the allow-list again, SIGUSR1 drains.

    Example: `culm connector run --listen 0.0.0.0:4455 --metrics-port 9100`
    """
    from culm_infra.cli.kit.log_lines import set_up
    from culm_infra.settings import resolve_kafka

    settings = kafka.load(
        log_format=log_format,
        connector={
            "listen": listen,
            "dial": dial,
            "listen_libp2p": listen_libp2p,
            "directory": directory,
            "allow_list": allow_list,
            "transport": {"datagram_bytes": datagram_size},
            "p2panda": {"schemas": schema, "sessions": {"mode": mode, "latency": latency or None}},
            "verify_entries_topic": False if trust_connectors else None,
            "serve_before_caught_up": serve_at_once or None,
            "metrics_host": metrics_host,
            "metrics_port": metrics_port,
        },
    )
    if settings.connector.metrics_port is None:
        refuse(context, ["metrics_host"], "goes with --metrics-port")
    if settings.connector.p2panda.sessions.mode == "heights":
        refuse(context, ["latency"], "is about set reconciliation, which --sync-mode heights does without")
    set_up(settings.log_format)
    reached = resolve_kafka(settings)
    asyncio.run(run_connector(connector_settings(settings), reached, json=results.json))


def id(*, directory: DataDirectory = None, stack: StackFlags, results: Results) -> None:
    """Print the connector's peer id; a missing key is created.

    Example: `culm connector id --dir ./edge-1`
    """
    from culm_connectors.edge.keyfile import load_or_make_key
    from culm_infra.settings import connector_directory

    settings = stack.load(connector={"directory": directory})
    folder = make_data_folder("connector", connector_directory(settings))
    peer_id = load_or_make_key(folder).public_key
    results.one({"peer_id": peer_id, "directory": folder}, peer_id.hex())


def connector_settings(settings: CulmSettings) -> ConnectorSettings:
    """Build the connector's settings from the settings tree. Raises `SettingsError`."""
    from culm_connectors.settings import ConnectorLimits, ConnectorSettings
    from culm_connectors.transport.libp2p.multiaddr import is_multiaddr
    from culm_infra.settings import connector_directory, wrong_values

    section = settings.connector
    try:
        return ConnectorSettings(
            directory=connector_directory(settings),
            listen=None if section.listen == "none" else address(section.listen, "connector.listen"),
            dial=tuple(address(text, "connector.dial") for text in section.dial if not is_multiaddr(text)),
            listen_libp2p=None
            if section.listen_libp2p is None
            else address(section.listen_libp2p, "connector.listen_libp2p"),
            dial_libp2p=tuple(_multiaddr(text) for text in section.dial if is_multiaddr(text)),
            **{name: getattr(section, name) for name in ConnectorLimits.model_fields},
        )
    except ValidationError as error:
        raise wrong_values(error, "connector") from error


def address(text: str, what: str | None = None) -> Address:
    """Parse `[quic://]HOST:PORT`; `what` names it in an error. Raises `typer.BadParameter`."""
    from culm_connectors.settings import parse_address

    try:
        return parse_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=what) from error


def _multiaddr(text: str) -> Multiaddr:
    from culm_connectors.transport.libp2p.errors import MultiaddrError
    from culm_connectors.transport.libp2p.multiaddr import parse_multiaddr

    try:
        return parse_multiaddr(text)
    except MultiaddrError as error:
        raise typer.BadParameter(f"{error}: {error.hint}" if error.hint else str(error)) from error


async def run_connector(
    settings: ConnectorSettings, kafka: Any, *, json: bool, only: str | None = None
) -> None:
    """Run a connector until it is stopped; `only` names the single protocol that it serves."""
    from culm_connectors.connector import Connector
    from culm_connectors.edge.protocol import log_progress
    from culm_connectors.protocols import PROTOCOLS

    make_data_folder("connector", settings.directory)
    with progress() as display:

        def started(where: Address | None) -> None:
            display.stop()
            # Objects that remain from the start stay for good, so later collections need not traverse them.
            gc.collect()
            gc.freeze()
            peer_id = connector.key_pair.public_key.hex()
            doors = connector.doors.where() if connector.doors is not None else {}
            nodes = doors.get("libp2p")
            if json:
                emit_json(
                    {
                        "address": _text(where),
                        "libp2p": nodes,
                        "doors": doors,
                        "peer_id": peer_id,
                        "metrics_port": connector.metrics_port,
                    }
                )
            else:
                at = f"serving peers on [bold]{safe(_text(where))}[/]" if where else "serving nobody"
                say(f"{at} as {peer_id}" if where or not doors else f"this connector is {peer_id}")
                if nodes is not None:
                    say(f"serving nodes by libp2p on [bold]{safe(nodes)}[/]")
                for name, address in doors.items():
                    # Doors over QUIC are at the address above and have the same place.
                    if name != "libp2p" and address != _text(where):
                        say(f"serving {safe(name)} on [bold]{safe(address)}[/]")
                if where is not None and only is None:
                    Results().next(f"culm p2panda peer sync {_text(where)}", "culm connector status")

        connector = Connector(
            settings,
            kafka,
            started=started,
            progress=show_progress(display) if err.is_terminal else log_progress,
            protocols=[protocol for protocol in PROTOCOLS if only in (None, protocol.name)],
        )
        connector.handle_signals()
        with announced_wait(kafka):
            await connector.run()


def _text(where: Address | None) -> str | None:
    return None if where is None else address_text(*where)


app = noun(
    "A connector at a network edge: peers on one side, Kafka on the other.",
    {"run": run, "id": id, "status": "status.connector:status", "drain": "status.drain:drain"},
)
