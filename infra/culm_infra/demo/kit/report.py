"""The report of a demo: its scenes with their figures and tables, for programs and for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table

from culm_infra.columns import cells
from culm_infra.demo.kit.figures import Figure, Listing, SceneFigures, as_text


@dataclass(slots=True)
class DemoReport:
    """A whole run. `claim` is what a demo shows, in words."""

    claim: str
    scenes: list[SceneFigures] = field(default_factory=list)
    total_s: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether everything was as it had to be, in every scene."""
        return bool(self.scenes) and all(scene.holds for scene in self.scenes)

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        scenes = [scene.as_json() for scene in self.scenes]
        return {"converged": self.converged, "total_s": self.total_s, "scenes": scenes}

    def tables(self) -> Iterator[Table]:
        """The report as tables for a terminal of 80 columns."""
        whole = _without_head("The whole run")
        for number, scene in enumerate(self.scenes, 1):
            yield from map(_listing, scene.listings)
            if len(self.scenes) == 1:
                _add_figures(whole, scene)
            else:
                table = _without_head(f"{number}. {scene.title}")
                _add_figures(table, scene)
                yield table
                outcome = verdict(scene.problems, scene.unreached, good="holds", bad="DOES NOT HOLD")
                whole.add_row(scene.title, f"{scene.duration_s:.1f} s, {outcome}")
        whole.add_row("all of it", f"{self.total_s:.1f} s")
        problems = [one for scene in self.scenes for one in scene.problems]
        whole.add_row(
            self.claim, verdict(problems, [one for scene in self.scenes for one in scene.unreached])
        )
        yield whole


def verdict(
    problems: Collection[str], unreached: Collection[str], *, good: str = "yes", bad: str = "NO"
) -> str:
    """The outcome in a word or two: tells what was not reached from what is wrong."""
    if problems:
        return bad
    return "not reached in time" if unreached else good


def _without_head(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    return table


def _listing(listing: Listing) -> Table:
    table = Table(
        title=listing.title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_header=any(listing.columns),
    )
    for number, head in enumerate(listing.columns):
        table.add_column(head, justify="left" if number < listing.words else "right", no_wrap=True)
    for row in listing.rows[: listing.limit]:
        table.add_row(*(_cell(value) for value in cells(listing.columns, row)))
    if listing.limit is not None and len(listing.rows) > listing.limit:
        table.add_row(f"… {len(listing.rows) - listing.limit} more: --json")
    return table


def _cell(value: object) -> str:
    if isinstance(value, int | float | str):
        return as_text(value)
    return str(value)


def _add_figures(table: Table, scene: SceneFigures) -> None:
    for figure in scene.figures:
        table.add_row(figure.label, f"{as_text(figure.value)} {figure.unit}".rstrip(), _rule(figure))
    for unreached in scene.unreached:
        table.add_row(f"[bold yellow]{unreached}[/]", "", "")
    for problem in scene.problems:
        table.add_row(f"[bold red]problem[/]: {problem}", "", "")


def _rule(figure: Figure) -> str:
    if not figure.rule:
        return ""
    mark = "[green]✓[/]" if figure.holds else "[bold red]✗[/]"
    return mark if figure.rule == "yes" else f"{mark} {figure.rule}"
