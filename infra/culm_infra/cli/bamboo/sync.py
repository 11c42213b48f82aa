"""``culm bamboo sync``: one exchange with a peer, or a dry run of it."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli.bamboo.folder import (
    ADDRESS,
    Again,
    First,
    Flavour,
    Last,
    LogFolderFlags,
    LogOption,
    PolicyFile,
    TlsFlags,
    check_logs,
    check_range,
    complete_address,
    made_flavour,
    parse_address,
    parse_flavour,
    read_rules,
)
from culm_infra.cli.bamboo.serve import event_row
from culm_infra.cli.kit.options import AnswerTimeout, on_the_line, refuse, words
from culm_infra.cli.kit.output import EXIT_DEGRADED, EXIT_FAILED, Results, emit_json, out, safe, say
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.interest import FollowedLog
    from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
    from culm_connectors.bamboo_p2p.session import Trace

_DIRECTIONS = ("pull", "push", "both")
_RANGE = ("first", "last", "sparse", "payload_only", "min_size", "max_size", "direction", "again")
"""Parameters that restrict what is requested of a log."""


def sync(
    context: typer.Context,
    address: Annotated[
        str,
        typer.Argument(
            metavar=ADDRESS,
            help="The peer, over tcp (the default), tls or quic.",
            autocompletion=complete_address,
        ),
    ],
    *,
    flags: LogFolderFlags,
    logs: LogOption = None,
    first: First = 1,
    last: Last = None,
    sparse: Annotated[
        bool,
        typer.Option(
            "--sparse",
            help="The shortest path to --last alone (by default the newest), with the pools that prove it.",
        ),
    ] = False,
    payload_only: Annotated[
        bool, typer.Option("--payload-only", help="Payloads of entries that are held, and nothing else.")
    ] = False,
    min_size: Annotated[int, typer.Option(min=0, max=MAX_SIZE, help="No smaller payload, in bytes.")] = 0,
    max_size: Annotated[
        int | None, typer.Option(min=0, max=MAX_SIZE, help="No larger payload, in bytes.")
    ] = None,
    direction: Annotated[
        str, typer.Option(help="pull, push or both.", autocompletion=words(*_DIRECTIONS))
    ] = "pull",
    again: Again = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only ask what would come; nothing is transferred.")
    ] = False,
    sizes: Annotated[
        bool,
        typer.Option("--sizes", help="With --dry-run: also the bytes, for which entries come, and are kept."),
    ] = False,
    emit_progress: Annotated[
        bool, typer.Option("--progress", help="With --json: lines that say how much came of how much.")
    ] = False,
    policy: PolicyFile = None,
    live: Annotated[
        bool, typer.Option("--live", help="Stay for what is new, until interrupted; print each entry.")
    ] = False,
    idle_s: Annotated[
        float,
        typer.Option(
            "--idle", metavar="SECONDS", min=0.1, help="An open range is through after so long without news."
        ),
    ] = 2.0,
    timeout_s: AnswerTimeout = None,
    trace: Annotated[
        Path | None, typer.Option(help="A folder for what passes on both channels, for `culm bamboo decode`.")
    ] = None,
    flavour: Flavour = None,
    tls: TlsFlags,
    results: Results,
) -> None:
    """Bring the logs of a folder up to date with a peer, once; an interrupted transfer resumes.

    Without --log, the rules for this peer (--policy) name the logs; without rules, all logs of the folder are
    exchanged. Exit status 1: the connection failed; 3: the peer refused a request.

    Example: `culm bamboo sync peer.example:4400 --log KEY/0`;
    `culm bamboo sync quic://peer.example:4400 --log KEY/0 --dry-run --sizes`;
    `culm bamboo sync peer.example:4400 --log KEY/0 --first 99 --last 99` (one entry, and what proves it)
    """
    from culm_connectors.bamboo_p2p.interest import FollowedLog
    from culm_connectors.bamboo_p2p.session import no_trace
    from culm_infra.cli.bamboo.syncing import SyncPlan, sync_once

    url = parse_address(address)
    if direction not in _DIRECTIONS:
        raise typer.BadParameter(f"{direction!r} is no direction: write {', '.join(_DIRECTIONS)}")
    check_range(first, last)
    if sizes and not dry_run:
        raise typer.BadParameter("--sizes belongs to --dry-run")
    if max_size is not None and max_size < min_size:
        raise typer.BadParameter(f"no payload has at least {min_size} and at most {max_size} bytes")
    if live:
        refuse(context, ["idle_s", "dry_run"], "--live stays for what is new, until interrupted")
    if emit_progress and not results.json:
        raise typer.BadParameter("goes with --json: it prints objects", param_hint="--progress")
    check_logs(logs)
    parse_flavour(flavour)
    settings = tls.settings([url])
    folder = flags.made()

    def interest(log: tuple[bytes, int]) -> FollowedLog:
        return FollowedLog(
            log,
            first,
            last,
            sparse=sparse,
            payload_only=payload_only,
            min_size=min_size,
            max_size=MAX_SIZE if max_size is None else max_size,
            direction=Direction(direction),
            again=again,
        )

    result = asyncio.run(
        sync_once(
            SyncPlan(
                folder,
                made_flavour(folder, flavour),
                settings,
                read_rules(folder, policy),
                url,
                logs,
                interest,
                is_restricted=bool(on_the_line(context, _RANGE)),
                idle_s=None if live else idle_s,
                timeout_s=timeout_s,
                trace=_trace(trace) if trace else no_trace,
                is_dry=dry_run,
                with_sizes=sizes,
                emits_progress=emit_progress,
                report=partial(_report, results=results) if live else None,
            )
        )
    )
    if results.json:
        emit_json(result)
    else:
        _show(result)
    if result["error"]:
        raise typer.Exit(EXIT_FAILED)
    if "refused" in result["cancelled"]:
        raise typer.Exit(EXIT_DEGRADED)


def _report(remote: RemotePeer, event: BambooP2pEvent, results: Results) -> None:
    """Print an entry or a payload when it arrives."""
    if event.kind not in ("entry", "payload", "fork"):
        return
    row = event_row(remote, event)
    results.one(row, f"{row['log']} {event.kind} {row.get('seq_num', '')}")


def _trace(folder: Path) -> Trace:
    """Return a trace that writes one file for each direction of each channel."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        "control <": "control-received",
        "control >": "control-sent",
        "data <": "data-received",
        "data >": "data-sent",
    }
    for name in names.values():
        (folder / name).write_bytes(b"")

    def write(name: str, data: bytes) -> None:
        with (folder / names[name]).open("ab") as file:
            file.write(data)

    return write


def _show(result: dict[str, Any]) -> None:
    if result["error"]:
        say(f"[bold red]the connection ended[/]: {safe(result['reason'])} [dim]({result['error']})[/]")
    if result["dry_run"]:
        for row in result["notified"]:
            unknown = row["payloads_of_unknown_size"]
            rest = f", and {unknown:,} payloads of unknown size" if unknown else ""
            out.print(
                f"{row['log']} reaches entry {row['height']:,}: {row['new_entries']:,} entries and "
                f"{row['new_payloads']:,} payloads would come, {row['bytes']:,} bytes of payloads{rest}"
            )
    else:
        out.print(
            f"{result['entries']:,} new entries and {result['payloads']:,} new payloads, "
            f"{result['received_bytes']:,} bytes received, {result['sent_bytes']:,} sent, "
            f"{result['duration_s']} s"
        )
    for code, number in result["cancelled"].items():
        if code not in ("done", "confirmed"):
            remedy = "; to send what this folder holds, add --direction push" if code == "refused" else ""
            say(f"[yellow]{number} of the requests ended: {code}[/]{remedy}")
    if result["forks"]:
        say(f"[bold red]{result['forks']} logs are forked[/]: the proofs are kept")
