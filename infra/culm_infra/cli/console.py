"""``culm console``: a web page about connectors, jobs and topics, which only reads."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.kit.options import ClusterFlags, LogFormat
from culm_infra.cli.kit.output import Results, emit_json, safe, say

if TYPE_CHECKING:
    from culm_infra.console.run import Served


def console(
    *,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="[http://]HOST:PORT", help="Where to serve the console; port 0 takes a free one."
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="unix:PATH|http://HOST:PORT",
            help="A status socket or the address of metrics; repeatable. By default all of this machine.",
        ),
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front of the console terminates TLS.")
    ] = False,
    kafka: ClusterFlags,
    log_format: LogFormat = None,
    results: Results,
) -> None:
    """Serve a web page about connectors, jobs, topics and protocols until interrupted. It only reads.

    The page needs the token in the address that is printed, or the one of the settings (console.token).

    Example: `culm console --target http://edge-1:9100 --target http://jobs-1:9101`
    """
    from culm_infra.cli.kit.log_lines import set_up
    from culm_infra.console.run import default_patterns, run_console
    from culm_infra.patience import interrupted
    from culm_infra.settings import resolve_kafka

    settings = kafka.load(
        log_format=log_format,
        console={"listen": listen, "targets": target, "behind_proxy": behind_proxy or None},
    )
    set_up(settings.log_format)
    reached = resolve_kafka(settings)

    def started(served: Served) -> None:
        if results.json:
            emit_json({"address": served.address, "url": served.url, "token": served.token})
            return
        say(f"the console is at [bold]{safe(served.url, 1_000)}[/]")
        if served.token is None:
            say("it needs the token of the settings (console.token): append ?token=… to the address once")
        results.next(f"xdg-open {shlex.quote(served.url)}")

    async def run() -> None:
        stop = interrupted()
        await run_console(settings.console, reached, default_patterns(settings), started=started, stop=stop)

    asyncio.run(run())
