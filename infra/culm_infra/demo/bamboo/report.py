"""The report of a run: every scene with its figures, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.table import Table

from culm_infra.demo.bamboo.figures import Figure, SceneFigures, as_text


@dataclass(slots=True)
class BambooReport:
    """A whole run."""

    scenes: list[SceneFigures] = field(default_factory=list)
    total_s: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether every figure of every scene is as it had to be."""
        return bool(self.scenes) and all(scene.holds for scene in self.scenes)

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return {
            "converged": self.converged,
            "total_s": self.total_s,
            "scenes": [{"holds": scene.holds, **asdict(scene)} for scene in self.scenes],
        }


def tables(report: BambooReport) -> Iterator[Table]:
    """The report as tables for a terminal of 80 columns."""
    for number, scene in enumerate(report.scenes, 1):
        yield _scene(number, scene)
    yield _whole(report)


def _scene(number: int, scene: SceneFigures) -> Table:
    table = Table(
        title=f"{number}. {scene.title}",
        title_justify="left",
        box=box.SIMPLE,
        show_header=False,
        pad_edge=False,
    )
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for figure in scene.figures:
        table.add_row(figure.label, _value(figure), _rule(figure))
    for problem in scene.problems:
        table.add_row(f"[bold red]problem[/]: {problem}", "", "")
    return table


def _value(figure: Figure) -> str:
    return f"{as_text(figure.value)} {figure.unit}".rstrip()


def _rule(figure: Figure) -> str:
    if not figure.rule:
        return ""
    mark = "[green]✓[/]" if figure.holds else "[bold red]✗[/]"
    return mark if figure.rule == "yes" else f"{mark} {figure.rule}"


def _whole(report: BambooReport) -> Table:
    table = Table(
        title="The whole run", title_justify="left", box=box.SIMPLE, show_header=False, pad_edge=False
    )
    table.add_column()
    table.add_column(justify="right")
    for scene in report.scenes:
        table.add_row(scene.title, f"{scene.duration_s:.1f} s, {'holds' if scene.holds else 'DOES NOT HOLD'}")
    table.add_row("all of it", f"{report.total_s:.1f} s")
    table.add_row("every figure as it has to be", "yes" if report.converged else "NO")
    return table
