"""Shared part of all demos: the folder and Kafka, the chapters, the report, the commands to try next."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from culm_infra.cli.kit import options
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, emit_json, err, out, safe, say
from culm_infra.demo.kit.size import DemoSize

if TYPE_CHECKING:
    from culm_infra.demo.kit.report import DemoReport
    from culm_infra.demo.kit.stage import DemoStage

Size = TypeVar("Size", bound=DemoSize)

REPORT_FILE: Final = "report.txt"
_REPORT_WIDTH: Final = 100
_PATH_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFlags:
    """Whether the stack of a demo stays up afterwards, and how much is printed."""

    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the whole report, not the summary alone.")
    ] = False
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up and say what to try next.")] = False


def present(
    flags: DemoFlags,
    kafka: options.ClusterFlags,
    results: Results,
    size: Size,
    play: Callable[[Size, DemoStage], Coroutine[Any, Any, DemoReport]],
    next_commands: Sequence[str] = (),
) -> None:
    """Play a demo, show a summary of its report, and end with status 3 if it has not converged.

    `next_commands` are suggestions for a stack that stays up; the option that names its Kafka is appended to
    each.
    """
    from culm_infra.demo.kit.stage import DemoStage
    from culm_infra.settings import resolve_kafka, stack_directory

    settings = kafka.load()
    chosen = None if kafka.stack is None else stack_directory(settings)
    folder = (chosen or Path(tempfile.mkdtemp(prefix="culm-demo-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    cluster = resolve_kafka(settings) if settings.bootstrap is not None else None
    report = _played(
        play, size, DemoStage(folder, say, size.timeout, cluster, settings.stack.heap_mb, flags.keep)
    )
    report_file = _write_report(report, folder)
    if results.json:
        emit_json(report.as_json())
    else:
        for table in report.tables() if flags.verbose else ():
            out.print(table)
        out.print(report.summary())
        out.print(f"the whole report: {report_file}", markup=False)
    if flags.keep:
        _name_next_commands(settings.bootstrap, folder, results, next_commands)
    elif chosen is None and report.converged:
        _remove_all_but(folder, report_file)
    else:
        say(f"what the processes printed: {safe(folder / 'output', _PATH_LIMIT)}")
    if not report.converged:
        raise typer.Exit(EXIT_DEGRADED)


def _name_next_commands(
    bootstrap: str | None, folder: Path, results: Results, next_commands: Sequence[str]
) -> None:
    """Say where the data is, and name commands for the Kafka that the demo used and that stays up."""
    from culm_infra.console.beside import running_beside
    from culm_infra.stack import Stack

    stack, console = Stack(folder), running_beside(folder)
    shown = safe(folder, _PATH_LIMIT)
    if console is not None:
        say(f"the console is at [bold]{safe(console.url, _PATH_LIMIT)}[/]")
    if bootstrap is not None:
        say(f"the data of the demo's processes is in {shown}")
        stop = [] if console is None else [f"kill {console.process.pid}"]
        results.next(*(f"{command} --bootstrap {bootstrap}" for command in next_commands), *stop)
    elif stack.status().running:
        say(f"Kafka is still up; its data is in {shown}")
        results.next(
            *(f"{command} --bootstrap {stack.bootstrap}" for command in next_commands),
            f"culm stack down --stack {shlex.quote(str(folder))}",
        )
    else:
        say(f"this demo used no Kafka; its data is in {shown}")


def _write_report(report: DemoReport, folder: Path) -> Path:
    """Write the whole report as text. Returns its path."""
    path = folder / REPORT_FILE
    with path.open("w", encoding="utf-8") as file:
        console = Console(file=file, width=_REPORT_WIDTH, highlight=False)
        for table in (*report.tables(), report.summary()):
            console.print(table)
    return path


def _remove_all_but(folder: Path, kept: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path != kept:
            path.unlink(missing_ok=True)


def _played(
    play: Callable[[Size, DemoStage], Coroutine[Any, Any, DemoReport]], size: Size, stage: DemoStage
) -> DemoReport:
    with err.status("") as status:

        def show(chapter: str) -> None:
            # Each chapter also leaves a line if standard error is not a terminal.
            say(f"[green]•[/] {chapter}")
            status.update(f"{chapter} …")

        stage.show = show
        return asyncio.run(play(size, stage))
