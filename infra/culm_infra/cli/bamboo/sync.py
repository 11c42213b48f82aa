"""``culm bamboo sync``: once what a peer has, or what it would send."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.bamboo.folder import (
    DEFAULT_FOLDER,
    Again,
    Flavour,
    Folder,
    LogOption,
    TlsFlags,
    chosen_logs,
    complete_address,
    log_name,
    made_flavour,
    parse_address,
)
from culm_infra.cli.options import spread
from culm_infra.cli.output import EXIT_FAILED, emit_json, out, progress, safe, say
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Eagerness

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.interest import FollowedLog
    from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
    from culm_connectors.bamboo_p2p.session import Trace
    from culm_connectors.bamboo_p2p.settings import BambooPeerSettings, Url
    from culm_models.bamboo.hashes import HashFlavour
    from culm_models.bamboo_p2p.events import BambooP2pEvent

_LOOK_S = 0.1
_DIRECTIONS = ("pull", "push", "both")


@dataclass(slots=True)
class _Seen:
    """What happened, counted by kind; `last` is the last of each cancel and skip."""

    counts: Counter[str] = field(default_factory=Counter)
    pieces: int = 0
    cancelled: Counter[str] = field(default_factory=Counter)

    def receive_event(self, _: RemotePeer, event: BambooP2pEvent) -> None:
        self.counts[event.kind] += 1
        self.pieces += getattr(event, "pieces", 0)
        if event.kind == "cancelled":
            self.cancelled[event.code.name.lower()] += 1  # type: ignore[attr-defined]


@spread
def sync(
    address: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The peer: tcp://, tls:// or quic://HOST:PORT.",
            autocompletion=complete_address,
        ),
    ],
    *,
    folder: Folder = DEFAULT_FOLDER,
    logs: LogOption = None,
    start: Annotated[int, typer.Option("--from", min=1, help="The first entry of the range.")] = 1,
    end: Annotated[
        int | None, typer.Option("--to", min=1, help="The last entry of the range; by default the newest.")
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="The shortest path to --to alone, with the pools that prove it.")
    ] = False,
    payload_only: Annotated[
        bool, typer.Option("--payload-only", help="Payloads of entries that are held, and nothing else.")
    ] = False,
    min_size: Annotated[int, typer.Option("--min-size", min=0, help="No smaller payload, in bytes.")] = 0,
    max_size: Annotated[
        int | None, typer.Option("--max-size", min=0, help="No larger payload, in bytes.")
    ] = None,
    direction: Annotated[
        str,
        typer.Option(
            "--direction",
            help="pull, push or both.",
            autocompletion=lambda incomplete: [one for one in _DIRECTIONS if one.startswith(incomplete)],
        ),
    ] = "pull",
    again: Again = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only ask what would come; nothing is transferred.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Stay for what is new, until interrupted.")] = False,
    idle_s: Annotated[
        float, typer.Option("--idle", min=0.1, help="An open range is through after so long without news.")
    ] = 2.0,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="A folder for what passes on both channels, for `culm bamboo decode`."),
    ] = None,
    flavour: Flavour = None,
    tls: TlsFlags,
    json: options.Json = False,
) -> None:
    """Bring the logs of a folder up to date with a peer, once; what broke off goes on where it stopped.

    Without --log it is about every log that the folder holds. Exit status 1: the connection failed.

    Example: `culm bamboo sync tcp://peer.example:4400 --log KEY/0`;
    `culm bamboo sync quic://peer.example:4400 --log KEY/0 --dry-run`;
    `culm bamboo sync tcp://peer.example:4400 --log KEY/0 --from 99 --to 99` (one entry, and what proves it)
    """
    from culm_connectors.bamboo_p2p.interest import FollowedLog
    from culm_models.bamboo_p2p.settings import Direction

    url = parse_address(address)
    if direction not in _DIRECTIONS:
        raise typer.BadParameter(f"{direction!r} is no direction: write {', '.join(_DIRECTIONS)}")
    if end is not None and end < start:
        raise typer.BadParameter(f"the range ends at {end}, before its start {start}")
    if sparse and end is None:
        raise typer.BadParameter("--sparse needs --to: the path leads from one entry to another")

    def interest(log: tuple[bytes, int]) -> FollowedLog:
        return FollowedLog(
            log,
            start,
            end,
            sparse=sparse,
            payload_only=payload_only,
            min_size=min_size,
            max_size=MAX_SIZE if max_size is None else max_size,
            eagerness=Eagerness.NOTIFY if dry_run else Eagerness.ALL,
            direction=Direction(direction),
            again=again,
        )

    told = asyncio.run(
        _sync(
            folder,
            made_flavour(folder, flavour),
            tls.settings(),
            url,
            logs,
            interest,
            idle_s=None if live else idle_s,
            trace=trace,
        )
    )
    told["dry_run"] = dry_run
    if json:
        emit_json(told)
    else:
        _show(told)
    if told["error"]:
        raise typer.Exit(EXIT_FAILED)


async def _sync(
    folder: Path,
    flavour: HashFlavour | None,
    settings: BambooPeerSettings,
    url: Url,
    names: list[str] | None,
    interest: Callable[[tuple[bytes, int]], FollowedLog],
    *,
    idle_s: float | None,
    trace: Path | None,
) -> dict[str, Any]:
    from culm_connectors.bamboo_p2p.peer import BambooPeer
    from culm_connectors.bamboo_p2p.session import no_trace
    from culm_connectors.edge.keyfile import load_or_make_key
    from culm_connectors.transport import Identity

    identity = Identity.from_private_key(load_or_make_key(folder).private_key)
    seen, began_s = _Seen(), time.monotonic()
    async with BambooPeer.open(folder, flavour=flavour, identity=identity, settings=settings) as peer:
        logs = await peer.read(lambda store: chosen_logs(names, store))
        if not logs:
            raise typer.BadParameter("no log is named, and the folder holds none: give --log KEY/ID")
        peer.listeners.append(seen.receive_event)
        async with peer.connect(url, trace=_trace(trace) if trace else no_trace) as remote:
            asking = asyncio.create_task(_ask(peer, remote, [interest(log) for log in logs]))
            try:
                await _wait(remote, asking, seen, idle_s)
            finally:
                asking.cancel()
        error = remote.session.error
        return {
            "peer": str(url),
            "logs": [log_name(log) for log in logs],
            "entries": seen.counts["entry"],
            "payloads": seen.counts["payload"],
            "notified_pieces": seen.pieces,
            "skipped_payloads": seen.counts["skipped"],
            "forks": seen.counts["fork"],
            "cancelled": dict(seen.cancelled),
            "received_bytes": remote.session.received_bytes,
            "sent_bytes": remote.session.sent_bytes,
            "duration_s": round(time.monotonic() - began_s, 3),
            "error": None if error is None else getattr(error, "code", type(error).__name__),
            "reason": None if error is None else str(error),
        }


async def _ask(peer: Any, remote: RemotePeer, interests: list[FollowedLog]) -> None:
    for one in interests:
        await peer.ask(remote, one)


async def _wait(remote: RemotePeer, asking: asyncio.Task[None], seen: _Seen, idle_s: float | None) -> None:
    """Until all is through: every request freed, or nothing new for a while."""
    former, since_s = -1, time.monotonic()
    with progress() as shown:
        task = shown.add_task("", total=None)
        while not remote.ended.is_set():
            session = remote.session
            moved = session.received_bytes + session.sent_bytes
            shown.update(
                task,
                completed=seen.counts["payload"],
                description=f"{seen.counts['entry']:,} entries, {moved / 1e6:,.1f} MB; payloads",
            )
            if moved != former:
                former, since_s = moved, time.monotonic()
            is_quiet = idle_s is not None and time.monotonic() - since_s > idle_s
            if asking.done() and idle_s is not None and (is_quiet or not await remote.open_requests()):
                return
            await asyncio.sleep(_LOOK_S)


def _trace(folder: Path) -> Trace:
    """What passes, one file for each direction of each channel."""
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


def _show(told: dict[str, Any]) -> None:
    if told["error"]:
        say(f"[bold red]the connection ended[/]: {safe(told['reason'])} [dim]({told['error']})[/]")
    if told["dry_run"]:
        out.print(f"the peer has {told['notified_pieces']:,} entries and payloads of what was asked for")
    else:
        out.print(
            f"{told['entries']:,} new entries and {told['payloads']:,} new payloads, "
            f"{told['received_bytes']:,} bytes received, {told['sent_bytes']:,} sent, {told['duration_s']} s"
        )
    for code, number in told["cancelled"].items():
        if code not in ("done", "confirmed"):
            say(f"[yellow]{number} of the requests ended: {code}[/]")
    if told["forks"]:
        say(f"[bold red]{told['forks']} logs are forked[/]: the proofs are kept")
