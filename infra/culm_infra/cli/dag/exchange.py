"""``culm dag sync`` and ``serve``: spaces between folders, over QUIC (reference 6) and HTTP (section 9)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from culm_infra.cli.dag.folder import (
    ValidatingFolderFlags,
    complete_id,
    count_of,
    parse_key,
    parse_place,
)
from culm_infra.cli.kit.options import AnswerTimeout, ExpectedPeer, words
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting, safe
from culm_infra.cli.kit.reaching import announced, limit_text, when_it_answers
from culm_infra.patience import interrupted

if TYPE_CHECKING:
    from culm_connectors.dag.http.settings import DagHttpSettings
    from culm_connectors.dag.progress import SyncProgress
    from culm_connectors.transport.interface import Address

Spaces = Annotated[
    list[str] | None,
    typer.Option(
        "--space",
        metavar="KEY",
        help="A space, in hex or as did:key; by default all of the folder. Repeatable.",
        autocompletion=complete_id,
    ),
]


_SCHEMES: Final = ("quic", "http", "https")


def _complete_limit(incomplete: str) -> list[str]:
    from culm_connectors.dag.http.settings import DoorLimits

    return words(*(f"{name}=" for name in DoorLimits.model_fields))(incomplete)


Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="With --http: a limit of the door, as max_reads_per_client=64; docs/dag-http.md lists them. "
        "Repeatable.",
        autocompletion=_complete_limit,
    ),
]


def sync(
    address: Annotated[
        str, typer.Argument(metavar="[quic://]HOST:PORT", help="The peer, or an edge, over QUIC.")
    ],
    *,
    flags: ValidatingFolderFlags,
    spaces: Spaces = None,
    expect: ExpectedPeer = None,
    timeout_s: AnswerTimeout = None,
    results: Results,
) -> None:
    """Exchange spaces with a peer until both have everything; an interrupted transfer resumes.

    Exit status 1: the exchange failed; 3: something was refused or postponed.

    Example: `culm dag sync edge.example:4460`; `culm dag sync 127.0.0.1:4460 --space KEY`
    """
    result, duration_s = asyncio.run(
        _sync(
            flags,
            parse_place(address)[1],
            None if spaces is None else [parse_key(space) for space in spaces],
            None if expect is None else parse_key(expect),
            timeout_s,
        )
    )
    row = {
        "nodes": result.nodes,
        "shards": result.shards,
        "received_bytes": result.received_bytes,
        "sent_bytes": result.sent_bytes,
        "acknowledged": result.acknowledged,
        "not_there": result.not_there,
        "refused": [[cid.text, code] for cid, code in result.refused],
        "later": [[cid.text, code] for cid, code in result.later],
        "duration_s": duration_s,
    }
    results.one(
        row,
        f"{count_of(result.nodes, 'new node')} and {count_of(result.shards, 'new shard')}, "
        f"{count_of(result.received_bytes, 'byte')} received, {result.sent_bytes:,} sent, {duration_s} s",
    )
    for cid, code in [*result.refused, *result.later]:
        results.say(f"[yellow]{cid.text}[/]: {safe(code)}")
    if result.refused or result.later:
        raise typer.Exit(EXIT_DEGRADED)


async def _sync(
    flags: ValidatingFolderFlags,
    address: Address,
    spaces: list[bytes] | None,
    expected_peer: bytes | None,
    timeout_s: float | None,
) -> tuple[SyncProgress, float]:
    from culm_connectors.dag.peer import DagPeer
    from culm_connectors.edge.keyfile import load_or_make_key
    from culm_connectors.transport import Identity
    from culm_connectors.url import Url

    settings = flags.peer_settings()
    folder = flags.made()
    identity = Identity.from_private_key(load_or_make_key(folder).private_key)
    waiting = f"waiting for {Url('quic', *address)}{limit_text(timeout_s)}"
    with counting("exchanging bytes") as count, announced(waiting) as answered:

        def show(now: SyncProgress) -> None:
            answered()
            moved = now.received_bytes + now.sent_bytes
            count(completed=moved, total=moved + now.wanted_bytes)

        async with DagPeer.open(folder, identity=identity, settings=settings) as peer:
            named = spaces or await peer.work(lambda store: store.queries.spaces()) or [identity.peer_id]
            started_s = time.monotonic()
            result = await when_it_answers(
                lambda: peer.sync(address, named, expected_peer=expected_peer, on_progress=show),
                timeout_s,
            )
            return result, round(time.monotonic() - started_s, 3)


def serve(
    address: Annotated[
        str,
        typer.Argument(
            metavar="[SCHEME://]HOST:PORT",
            help="Where to listen, over quic (the default), http or https; port 0 takes a free one.",
        ),
    ],
    *,
    flags: ValidatingFolderFlags,
    spaces: Spaces = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP, of every space, instead of QUIC; to read alone.")
    ] = False,
    writable: Annotated[
        bool, typer.Option("--writable", help="With --http: let every client send nodes and shards.")
    ] = False,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="With --http: pages of this origin may call, as https://example.org. Repeatable.",
        ),
    ] = None,
    tls: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="CERTIFICATE KEY", help="With --http: over TLS, with these two PEM files."),
    ] = None,
    limits: Limits = None,
    results: Results,
) -> None:
    """Exchange the spaces of a folder with every peer that connects, until interrupted.

    Example: `culm dag serve 0.0.0.0:4460`; `culm dag serve http://127.0.0.1:8080`;
    `culm dag serve https://0.0.0.0:8443 --tls edge.pem edge.key`
    """
    scheme, place = parse_place(address, _SCHEMES)
    if http and scheme == "quic":
        raise typer.BadParameter("--http does not go with quic://")
    http = http or scheme in ("http", "https")
    if scheme is not None and http and (scheme == "https") != (tls is not None):
        raise typer.BadParameter("https:// requires --tls, and http:// does not go with it")
    if tls is not None and not http:
        raise typer.BadParameter("QUIC always encrypts: --tls goes with --http")
    if writable and not http:
        raise typer.BadParameter("over QUIC everybody may write: --writable requires --http")
    if origins and (not http or "*" in origins):
        raise typer.BadParameter(
            "--origin goes with --http, and names one origin: `*` would let every page in"
        )
    if limits and not http:
        raise typer.BadParameter("the limits of --limit are those of HTTP: it goes with --http")
    if spaces is not None and http:
        raise typer.BadParameter("over HTTP every space is served: leave out --space")
    if http:
        with contextlib.suppress(KeyboardInterrupt):
            door = _door(
                place,
                _parse_limits(limits or []),
                writable=writable,
                origins=origins or (),
                tls=tls,
            )
            asyncio.run(_serve_http(flags, door, results))
        return
    named = None if spaces is None else [parse_key(space) for space in spaces]
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(flags, place, named, results))


async def _serve(
    flags: ValidatingFolderFlags, address: Address, spaces: list[bytes] | None, results: Results
) -> None:
    from culm_connectors.dag.peer import DagPeer
    from culm_connectors.edge.keyfile import load_or_make_key
    from culm_connectors.transport import Identity
    from culm_connectors.url import Url

    settings = flags.peer_settings()
    folder = flags.made()
    identity = Identity.from_private_key(load_or_make_key(folder).private_key)
    stopped = interrupted()
    async with DagPeer.open(folder, identity=identity, settings=settings) as peer:
        named = spaces or await peer.work(lambda store: store.queries.spaces()) or []
        async with peer.listen(address, named) as (host, port):
            results.event(
                {"event": "listening", "host": host, "port": port, "peer": identity.peer_id},
                f"listening at [bold]{host}:{port}[/], as {identity.peer_id.hex()}",
            )
            space = (named or [identity.peer_id])[0].hex()
            results.next(f"culm dag sync {Url('quic', host, port)} --space {space} --dir other")
            await stopped.wait()


def _parse_limits(pairs: Sequence[str]) -> dict[str, str]:
    """Parse and check limits. Returns them by name. Raises `typer.BadParameter`."""
    from pydantic import ValidationError

    from culm_connectors.dag.http.settings import DoorLimits

    limits: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in DoorLimits.model_fields:
            raise typer.BadParameter(f"{name!r} is no limit; there are {', '.join(DoorLimits.model_fields)}")
        if name in limits:
            raise typer.BadParameter(f"the limit {name} is there twice")
        limits[name] = value
    try:
        DoorLimits.model_validate(limits)
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(f"{first['loc'][0]}={first['input']}: {first['msg']}") from None
    return limits


def _door(
    address: Address,
    limits: Mapping[str, str],
    *,
    writable: bool,
    origins: Sequence[str],
    tls: tuple[Path, Path] | None,
) -> DagHttpSettings:
    from culm_connectors.dag.http.settings import DagHttpSettings, DoorTls

    served = {
        "host": address[0],
        "port": address[1],
        "tls": None if tls is None else DoorTls(certificate=tls[0], private_key=tls[1]),
        "read": "anyone",
        "append": "anyone" if writable else "allowed",
        "origins": tuple(origins),
    }
    return DagHttpSettings.model_validate({**limits, **served})


async def _serve_http(flags: ValidatingFolderFlags, door: DagHttpSettings, results: Results) -> None:
    from culm_connectors.dag.http.server import serve_http
    from culm_connectors.dag.service import DagService
    from culm_connectors.dag.store.folder import DagFolder
    from culm_connectors.open_files import allow_open_files

    allow_open_files()
    stopped = interrupted()
    settings = flags.settings()
    opened = DagFolder(flags.made(), settings, create=True)
    try:
        async with DagService(opened) as service, serve_http(service, door) as url:
            results.event({"event": "listening", "url": url}, f"listening at [bold]{url}[/]")
            results.next(f"curl {url}/openapi.json")
            await stopped.wait()
    finally:
        opened.close()
