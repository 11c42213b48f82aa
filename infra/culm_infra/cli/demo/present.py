"""Shared part of all demos: the folder and Kafka, the chapters, the report, the commands to try next."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from culm_infra.cli.kit import options
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, emit_json, err, out, say
from culm_infra.demo.kit.size import DemoSize

if TYPE_CHECKING:
    from culm_infra.demo.kit.report import DemoReport
    from culm_infra.demo.kit.stage import DemoStage

Size = TypeVar("Size", bound=DemoSize)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFlags:
    """Whether the stack of a demo stays up afterwards."""

    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up and say what to try next.")] = False


def present(
    flags: DemoFlags,
    kafka: options.ClusterFlags,
    results: Results,
    size: Size,
    play: Callable[[Size, DemoStage], Coroutine[Any, Any, DemoReport]],
    next_commands: Sequence[str] = (),
) -> None:
    """Play a demo, show its report, and end with status 3 if it has not converged.

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
    if results.json:
        emit_json(report.as_json())
    else:
        for table in report.tables():
            out.print(table)
    if flags.keep:
        from culm_infra.stack import Stack

        where = f"--bootstrap {settings.bootstrap or Stack(folder).bootstrap}"
        say(f"\nKafka is still up in {folder}. Try next:")
        for line in (
            f"culm stack status --stack {folder}",
            *(f"{command} {where}" for command in next_commands),
            f"culm stack down --stack {folder}",
        ):
            say(f"  {line}")
    elif chosen is None and report.converged:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"what the processes printed: {folder / 'output'}")
    if not report.converged:
        raise typer.Exit(EXIT_DEGRADED)


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
