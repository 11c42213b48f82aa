"""What every demo does around its own story: where it plays, its chapters, its report, what to try next."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from culm_infra.cli import options
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, err, out, say
from culm_infra.cli.results import Results

if TYPE_CHECKING:
    from rich.table import Table


class Report(Protocol):
    """What a demo ends with."""

    @property
    def converged(self) -> bool:
        """Whether everyone holds the same, and nothing was lost."""

    def as_json(self) -> dict[str, Any]:
        """All of it, for programs."""


Plan = TypeVar("Plan")
AReport = TypeVar("AReport", bound=Report)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFlags:
    """Where a demo plays, and what it leaves."""

    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up and say what to try next.")] = False
    directory: options.StackDirectory = None


def present(
    flags: DemoFlags,
    kafka: options.KafkaFlags,
    results: Results,
    plan: Callable[..., Plan],
    play: Callable[[Plan, Callable[[str], None]], Coroutine[Any, Any, AReport]],
    tables: Callable[[AReport], Iterable[Table]],
    next_commands: Sequence[str],
) -> None:
    """Play a demo, show its report, and end with status 3 where it has not converged.

    `plan` lacks nothing but where the demo plays: `directory`, `keep`, `kafka` (None: its own) and `heap_mb`.
    `next_commands` are what to try on what is left; the flag that names its Kafka goes behind each.
    """
    from culm_infra.settings import resolve_kafka

    settings = kafka.load()
    folder = flags.directory or Path(tempfile.mkdtemp(prefix="culm-demo-"))
    story = plan(
        directory=folder.absolute(),
        keep=flags.keep,
        kafka=resolve_kafka(settings) if settings.bootstrap is not None else None,
        heap_mb=settings.stack.heap_mb,
    )
    report = _shown(story, play, tables, results=results)
    if flags.keep:
        from culm_infra.stack import Stack

        where = f"--bootstrap {settings.bootstrap or Stack(folder.absolute()).bootstrap}"
        say(f"\nKafka is still up in {folder}. Try next:")
        for line in (
            f"culm stack status --dir {folder}",
            *(f"{command} {where}" for command in next_commands),
            f"culm stack down --dir {folder}",
        ):
            say(f"  {line}")
        if not report.converged:
            raise typer.Exit(EXIT_DEGRADED)
    else:
        _leave(folder, report, is_temporary=flags.directory is None)


def present_folders(
    directory: Path | None,
    plan: Callable[..., Plan],
    play: Callable[[Plan, Callable[[str], None]], Coroutine[Any, Any, AReport]],
    tables: Callable[[AReport], Iterable[Table]],
    *,
    results: Results,
) -> None:
    """Play a demo that keeps no Kafka: `plan` lacks nothing but its `directory`. Otherwise as `present`."""
    folder = directory or Path(tempfile.mkdtemp(prefix="culm-demo-"))
    report = _shown(plan(directory=folder.absolute()), play, tables, results=results)
    _leave(folder, report, is_temporary=directory is None)


def _shown(
    story: Plan,
    play: Callable[[Plan, Callable[[str], None]], Coroutine[Any, Any, AReport]],
    tables: Callable[[AReport], Iterable[Table]],
    *,
    results: Results,
) -> AReport:
    with err.status("") as status:

        def show(chapter: str) -> None:
            # Each chapter leaves a line, also where standard error is no terminal.
            say(f"[green]•[/] {chapter}")
            status.update(f"{chapter} …")

        report = asyncio.run(play(story, show))
    if results.json:
        emit_json(report.as_json())
    else:
        for table in tables(report):
            out.print(table)
    return report


def _leave(folder: Path, report: Report, *, is_temporary: bool) -> None:
    """Take away what nobody needs any more, and end with status 3 where the demo has not converged."""
    if is_temporary and report.converged:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"what the processes printed: {folder / 'output'}")
    if not report.converged:
        raise typer.Exit(EXIT_DEGRADED)
