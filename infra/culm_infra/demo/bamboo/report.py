"""The report of a run: every scene with its figures, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from culm_infra.demo.kit.figures import SceneFigures, figure_table
from culm_infra.demo.kit.tables import verdict, whole_run


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
        yield figure_table(f"{number}. {scene.title}", scene)
    yield _whole(report)


def _whole(report: BambooReport) -> Table:
    table = whole_run()
    table.add_column()
    table.add_column(justify="right")
    for scene in report.scenes:
        outcome = verdict(scene.problems, scene.unreached, good="holds", bad="DOES NOT HOLD")
        table.add_row(scene.title, f"{scene.duration_s:.1f} s, {outcome}")
    table.add_row("all of it", f"{report.total_s:.1f} s")
    problems = [one for scene in report.scenes for one in scene.problems]
    unreached = [one for scene in report.scenes for one in scene.unreached]
    table.add_row("every figure as it has to be", verdict(problems, unreached))
    return table
