"""``culm stack``: start, stop and inspect a real single-node Kafka on this machine."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli.kit import options
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import StackFlags
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, emit_json, err, out, safe, say

if TYPE_CHECKING:
    from culm_infra.settings import CulmSettings
    from culm_infra.stack import Stack, StackStatus

Port = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="The broker's port; by default a free one, remembered."),
]
Heap = Annotated[int | None, typer.Option("--heap-mb", min=128, help="The broker's largest heap in MiB.")]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="Any property of Kafka's broker; remembered."),
]


def up(
    *,
    port: Port = None,
    heap_mb: Heap = None,
    broker_property: Property = None,
    quick_start: options.QuickStart = None,
    timeout_s: options.Timeout = 60.0,
    stack: StackFlags,
    results: Results,
) -> None:
    """Start the broker unless it runs, wait until it answers, and print its bootstrap address.

    A running broker keeps its settings. Exit status 3: its settings differ from those requested.

    Example: `culm stack up --stack scratch --heap-mb 1024`
    """
    from culm_infra.cli.jars import fetch_with_progress
    from culm_infra.settings import named_values

    properties = named_values("--property", broker_property or [], example="log.retention.hours=48")
    settings = stack.load(stack={"heap_mb": heap_mb, "quick_start": quick_start})
    broker = _stack(settings)
    fetch_with_progress("broker")
    with err.status("starting Kafka"):
        bootstrap = broker.up(
            timeout_s or 60.0,
            port=port,
            heap_mb=settings.stack.heap_mb,
            properties=properties,
            quick_start=settings.stack.quick_start,
        )
    not_applied = broker.not_applied(port=port, heap_mb=settings.stack.heap_mb, properties=properties)
    results.one(_row(broker.status()) | {"not_applied": not_applied}, bootstrap)
    results.say(f"Kafka answers; its data is in [bold]{safe(broker.directory)}[/]")
    if not_applied:
        say(f"it was running already, without {safe(', '.join(not_applied))}: restart it to apply this")
        raise typer.Exit(EXIT_DEGRADED)
    results.next(*map(stack.command, ("culm topics create", "culm job run", "culm stack down")))


def down(
    *,
    kill_after_s: Annotated[
        float, typer.Option("--kill-after", metavar="SECONDS", min=1, help="Kill it if it runs for so long.")
    ] = 30.0,
    stack: StackFlags,
    results: Results,
) -> None:
    """Stop the broker, and the console that a demo started beside it; its data stays.

    Example: `culm stack down --stack scratch`
    """
    from culm_infra.console.beside import stop_beside

    broker = _stack(stack.load())
    stop_beside(broker.directory)
    stopped = broker.down(kill_after_s)
    if results.json:
        emit_json({"stopped": stopped, "directory": str(broker.directory)})
    else:
        say("stopped" if stopped else f"the stack in {safe(broker.directory)} was not running")


def status(*, stack: StackFlags, results: Results) -> None:
    """Print whether the broker runs and answers. Exit status 3: it does not.

    Example: `culm stack status --json`
    """
    state = _stack(stack.load()).status()
    if results.json:
        emit_json(_row(state))
    else:
        what = "up" if state.healthy else "running, but it does not answer" if state.running else "down"
        out.print(f"Kafka is {what}")
        for label, value in _row(state).items():
            if value is not None and label not in ("running", "healthy"):
                out.print(f"  {label}: {value}", markup=False)
    if not state.healthy:
        raise typer.Exit(EXIT_DEGRADED)


def logs(
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new lines.")] = False,
    lines: Annotated[
        int, typer.Option("--tail", metavar="N", min=0, help="Begin with the last N lines.")
    ] = 50,
    stack: StackFlags,
) -> None:
    """Print the broker's own log.

    Example: `culm stack logs -f --tail 20`
    """
    from culm_infra.stack import log_file

    path = _stack(stack.load()).files.log
    if not follow and not path.is_file():
        say(f"no log yet: {safe(path)}")
        return
    for line in log_file.follow(path, lines) if follow else log_file.last_lines(path, lines):
        sys.stdout.write(line + "\n")
        if follow:
            sys.stdout.flush()


def _stack(settings: CulmSettings) -> Stack:
    from culm_infra.settings import stack_directory
    from culm_infra.stack import Stack

    return Stack(stack_directory(settings))


def _row(state: StackStatus) -> dict[str, Any]:
    return {**asdict(state), "directory": str(state.directory)}


app = noun(
    "A real single-node Kafka on this machine.", {"up": up, "down": down, "status": status, "logs": logs}
)
