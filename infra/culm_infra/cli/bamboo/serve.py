"""``culm bamboo serve``: serve a folder to peers and keep it up to date with them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli.bamboo.folder import (
    ADDRESS,
    Flavour,
    LogFolderFlags,
    LogOption,
    PolicyFile,
    TlsFlags,
    check_logs,
    chosen_logs,
    complete_address,
    log_name,
    made_flavour,
    parse_address,
    parse_flavour,
    read_rules,
)
from culm_infra.cli.kit.output import Results, emit_json, safe, say
from culm_infra.patience import interrupted
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.settings import Direction

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.peer import BambooPeer
    from culm_connectors.bamboo_p2p.policy.document import FolderPolicy
    from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
    from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
    from culm_connectors.url import Url

_RULES_S = 1.0
"""Seconds between two readings of the rules."""


def serve(
    addresses: Annotated[
        list[str],
        typer.Argument(
            metavar=f"{ADDRESS}…",
            help="Where to listen, over tcp (the default), tls or quic; port 0 takes a free one.",
            autocompletion=complete_address,
        ),
    ],
    *,
    flags: LogFolderFlags,
    dialled: Annotated[
        list[str] | None,
        typer.Option(
            "--dial",
            metavar="ADDRESS",
            help="A peer to keep a connection to, for the logs of --log. Repeatable.",
            autocompletion=complete_address,
        ),
    ] = None,
    logs: LogOption = None,
    progress_timeout_s: Annotated[
        float,
        typer.Option(
            "--progress-timeout",
            metavar="SECONDS",
            min=0.1,
            help="A source of --dial that sends nothing for so long is replaced by another.",
        ),
    ] = 20.0,
    read_only: Annotated[bool, typer.Option("--read-only", help="Take nothing from who calls.")] = False,
    policy: PolicyFile = None,
    flavour: Flavour = None,
    tls: TlsFlags,
    results: Results,
) -> None:
    """Serve the logs of a folder to peers, and take from them what they offer, until interrupted.

    Entries that are published to the folder meanwhile, here or by `culm bamboo publish`, go to every peer
    that asked for new entries. Changed rules (--policy, see `culm bamboo policy`) apply without a restart.
    Without rules, everybody who can connect may read; over tls://, --tls-ca admits only peers with a
    certificate of that authority. If there are several --dial, only one sends each log and the others
    announce what they have; one of them takes over if the sender stalls.

    Example: `culm bamboo serve 127.0.0.1:4400 quic://127.0.0.1:4400`;
    `culm bamboo serve quic://[::]:4400 --policy policy.toml`;
    `culm bamboo serve 127.0.0.1:0 --dial one:4400 --dial two:4400 --log KEY/0`
    """
    from dataclasses import replace

    urls = [parse_address(text) for text in addresses]
    called = [parse_address(text) for text in dialled or []]
    settings = tls.settings([*urls, *called], progress_timeout_s=progress_timeout_s)
    check_logs(logs)
    parse_flavour(flavour)
    folder = flags.made()
    if read_only:
        answer = replace(settings.connection.policy, direction=Direction.PUSH)
        settings = replace(settings, connection=replace(settings.connection, policy=answer))

    def rules() -> FolderPolicy | None:
        folder_policy = read_rules(folder, policy)
        return (
            folder_policy.changed(direction=Direction.PUSH)
            if folder_policy is not None and read_only
            else folder_policy
        )

    made = made_flavour(folder, flavour)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(folder, made, settings, rules, urls, called, logs, results))


async def _serve(
    folder: Path,
    flavour: HashFlavour | None,
    settings: BambooPeerSettings,
    read: Callable[[], FolderPolicy | None],
    urls: list[Url],
    called: list[Url],
    names: list[str] | None,
    results: Results,
) -> None:
    from culm_connectors.bamboo_p2p.interest import FollowedLog
    from culm_connectors.bamboo_p2p.peer import BambooPeer
    from culm_connectors.edge.keyfile import load_or_make_key
    from culm_connectors.transport import Identity

    identity = Identity.from_private_key(load_or_make_key(folder).private_key)
    rules = read()
    stopped = interrupted()
    async with (
        BambooPeer.open(folder, flavour=flavour, identity=identity, settings=settings, policy=rules) as peer,
        contextlib.AsyncExitStack() as doors,
    ):
        ends: set[asyncio.Task[None]] = set()

        def show(remote: RemotePeer, event: BambooP2pEvent) -> None:
            _show(remote, event, results)
            if event.kind == "setup":
                ends.add(task := asyncio.create_task(_show_end(remote, results)))
                task.add_done_callback(ends.discard)

        peer.listeners.append(show)
        bounds: list[Url] = []
        for url in urls:
            bound = await doors.enter_async_context(peer.listen(url))
            words = f"listening at [bold]{bound}[/], as {identity.peer_id.hex()}"
            results.event({"event": "listening", "url": str(bound)}, words)
            bounds.append(bound)
        stored_logs = await peer.read(lambda store: store.logs)
        of_log = f" --log {log_name(stored_logs[0])}" if stored_logs else ""
        results.next(f"culm bamboo sync {bounds[0]}{of_log} --dir other")
        # If there are rules, they say what is followed, unless logs are named.
        followed = await peer.read(lambda store: chosen_logs(names, store)) if names or rules is None else []
        for log in followed:
            await peer.follow(FollowedLog(log, direction=Direction.BOTH))
        calls = [asyncio.create_task(peer.keep_connected(url)) for url in called]
        calls.append(asyncio.create_task(_keep_rules(peer, rules, read, results)))
        try:
            await stopped.wait()
        finally:
            for task in (*calls, *ends):
                task.cancel()
            await asyncio.gather(*calls, *ends, return_exceptions=True)


async def _keep_rules(
    peer: BambooPeer, rules: FolderPolicy | None, read: Callable[[], FolderPolicy | None], results: Results
) -> None:
    """Apply the rules whenever they change; a malformed file leaves the current rules in force."""
    from culm_connectors.bamboo_p2p.errors import PolicyError

    problem = ""
    while True:
        await asyncio.sleep(_RULES_S)
        try:
            present = await asyncio.to_thread(read)
        except PolicyError as error:
            if str(error) != problem:
                problem = str(error)
                say(f"[bold red]the rules stay as they were[/]: {safe(problem, 1_000)}")
            continue
        problem = ""
        if present != rules:
            rules = present
            await peer.use_policy(rules)
            results.event({"event": "policy"}, "the rules were read again")


def _show(remote: RemotePeer, event: BambooP2pEvent, results: Results) -> None:
    row = event_row(remote, event)
    if results.json:
        emit_json(row)
    elif event.kind not in ("entry", "payload", "notified", "skipped"):
        rest = ", ".join(
            f"{name} {safe(value)}" for name, value in row.items() if name not in ("event", "remote")
        )
        say(f"{safe(remote.name, 24)} {event.kind}: {rest}")


async def _show_end(remote: RemotePeer, results: Results) -> None:
    """Report the end of a connection, with the reason if it did not end in good order."""
    await remote.ended.wait()
    error = remote.session.error
    code = None if error is None else getattr(error, "code", type(error).__name__)
    why = "" if error is None else f": {safe(error)}"
    row = {"event": "ended", "remote": remote.name, "error": code}
    results.event(row, f"{safe(remote.name, 24)} has left{why}")


def event_row(remote: RemotePeer, event: BambooP2pEvent) -> dict[str, object]:
    """Return an event as a row for programs."""
    from dataclasses import asdict

    row: dict[str, Any] = {"event": event.kind, "remote": remote.name, **asdict(event)}
    if (log := row.pop("log", None)) is not None:
        row["log"] = log_name(log)
    if evidence := row.pop("evidence", ()):
        row["evidence"] = [piece.hex() for piece in evidence]
    return row
