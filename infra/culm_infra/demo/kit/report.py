"""The report of a demo: scenes with figures, their rules, and tables; for programs and people."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich import box
from rich.markup import escape
from rich.table import Table

from culm_infra.columns import Columns, Row, cells
from culm_infra.errors import InfraError, NotReached

Value = int | float | bool | str

_SUMMARY_ROWS: Final = 18
"""Figures, scenes and problems in a summary, which thereby stays below 25 lines."""
_LABEL_WIDTH: Final = 56


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `rule` is its required value in words; empty if the figure is only shown."""

    label: str
    value: Value
    unit: str = ""
    rule: str = ""
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of a scene: `name` for programs, `title` for people; the first `words` columns are text.

    People see the first `limit` rows.
    """

    name: str
    title: str
    columns: Columns
    rows: Sequence[Row]
    words: int = 1
    limit: int | None = None


@dataclass(slots=True)
class SceneFigures:
    """The figures of one scene. `problems`: wrong figures and errors that stopped the scene, in words.

    `unreached`: conditions that were not met when nothing changed any more, and data that was missing then;
    it may have been in transit.
    """

    name: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    duration_s: float = 0.0

    def stop(self, error: InfraError) -> None:
        """Record the error that ended the scene."""
        (self.unreached if isinstance(error, NotReached) else self.problems).append(str(error))

    @property
    def holds(self) -> bool:
        """Whether all figures have their required values and all conditions were met."""
        return not self.problems and not self.unreached and all(figure.holds for figure in self.figures)

    def as_json(self) -> dict[str, Any]:
        """Return the scene as plain data, with each table under its name."""
        return {
            "name": self.name,
            "title": self.title,
            "holds": self.holds,
            "duration_s": self.duration_s,
            "problems": self.problems,
            "unreached": self.unreached,
            "figures": [asdict(figure) for figure in self.figures],
            **{listing.name: list(listing.rows) for listing in self.listings},
        }

    def add_missing(self, count: int, what: str) -> None:
        """Record that `count` items are missing, if any are; they may be in transit."""
        if count and what not in self.unreached:
            self.unreached.append(what)

    def add_problem(self, count: int, problem: str) -> None:
        """Record that `count` items are wrong, if any are; waiting does not help."""
        if count:
            self.problems.append(problem)

    def show(self, label: str, value: Value, unit: str = "") -> None:
        """Add a figure without a rule."""
        self.figures.append(Figure(label, value, unit))

    def equal(self, label: str, value: Value, wanted: Value, unit: str = "") -> None:
        """Add a figure with a required value."""
        self._demand(Figure(label, value, unit, f"= {as_text(wanted)}", value == wanted))

    def at_most(self, label: str, value: float, limit: float, unit: str = "") -> None:
        """Add a figure with an upper limit."""
        self._demand(Figure(label, value, unit, f"≤ {as_text(limit)}", value <= limit))

    def at_least(self, label: str, value: float, limit: float, unit: str = "") -> None:
        """Add a figure with a lower limit."""
        self._demand(Figure(label, value, unit, f"≥ {as_text(limit)}", value >= limit))

    def demand(self, label: str, *, holds: bool) -> None:
        """Add a condition that must be true."""
        self._demand(Figure(label, holds, "", "yes", holds))

    def _demand(self, figure: Figure) -> None:
        self.figures.append(figure)
        if not figure.holds:
            self.problems.append(f"{figure.label}: {as_text(figure.value)}, not {figure.rule}")


def as_text(value: Value) -> str:
    """Return a value as text for people."""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return value


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which ``share`` of the values lie; None if there are no values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def in_ms(values: Sequence[float]) -> str:
    """Return latencies as text: p50 and p99 in ms."""
    p50, p99 = (percentile(values, share) for share in (0.5, 0.99))
    return f"{whole(p50)} ms p50, {whole(p99)} ms p99"


def whole(value: float | None) -> str:
    """Return a number without decimals; a dash for None."""
    return "–" if value is None else f"{value:,.0f}"


@dataclass(slots=True)
class DemoReport:
    """The report of a whole run. `claim` is the demo's statement in words."""

    claim: str
    scenes: list[SceneFigures] = field(default_factory=list)
    total_s: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether every scene holds."""
        return bool(self.scenes) and all(scene.holds for scene in self.scenes)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        scenes = [scene.as_json() for scene in self.scenes]
        return {"converged": self.converged, "total_s": self.total_s, "scenes": scenes}

    def summary(self) -> Table:
        """Return the outcome in at most 25 lines: scenes, or the figures of one scene, and problems."""
        summary = Table(
            title="Summary", title_justify="left", box=box.SIMPLE, show_header=False, pad_edge=False
        )
        summary.add_column(no_wrap=True, overflow="ellipsis", max_width=_LABEL_WIDTH)
        summary.add_column(no_wrap=True, justify="right")
        rows = [(f"problem: {problem}", "") for problem in self._problems]
        rows += [(f"not reached: {condition}", "") for condition in self._unreached]
        rows += [*self._scene_rows()]
        for label, value in rows[:_SUMMARY_ROWS]:
            summary.add_row(escape(label), value)
        if len(rows) > _SUMMARY_ROWS:
            summary.add_row(f"… {len(rows) - _SUMMARY_ROWS} more in the report", "")
        summary.add_row("all of it", f"{self.total_s:.1f} s")
        summary.add_row(self.claim, outcome_text(self._problems, self._unreached))
        return summary

    @property
    def _problems(self) -> list[str]:
        return [problem for scene in self.scenes for problem in scene.problems]

    @property
    def _unreached(self) -> list[str]:
        return [condition for scene in self.scenes for condition in scene.unreached]

    def _scene_rows(self) -> Iterator[tuple[str, str]]:
        if len(self.scenes) == 1:
            for figure in self.scenes[0].figures:
                value = f"{as_text(figure.value)} {figure.unit}".rstrip()
                yield figure.label, f"{value} {_rule(figure)}".rstrip()
            return
        for scene in self.scenes:
            yield scene.title, _scene_outcome(scene)

    def tables(self) -> Iterator[Table]:
        """Yield the report as tables for a terminal of 80 columns."""
        whole = _without_head("The whole run")
        for number, scene in enumerate(self.scenes, 1):
            yield from map(_listing, scene.listings)
            if len(self.scenes) == 1:
                _add_figures(whole, scene)
            else:
                table = _without_head(f"{number}. {scene.title}")
                _add_figures(table, scene)
                yield table
                whole.add_row(scene.title, _scene_outcome(scene))
        whole.add_row("all of it", f"{self.total_s:.1f} s")
        whole.add_row(self.claim, outcome_text(self._problems, self._unreached))
        yield whole


def outcome_text(
    problems: Collection[str], unreached: Collection[str], *, good: str = "yes", bad: str = "NO"
) -> str:
    """Return the outcome in a few words; distinguishes what was not reached from what is wrong."""
    if problems:
        return bad
    return "not reached in time" if unreached else good


def _scene_outcome(scene: SceneFigures) -> str:
    outcome = outcome_text(scene.problems, scene.unreached, good="holds", bad="DOES NOT HOLD")
    return f"{scene.duration_s:.1f} s, {outcome}"


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
        table.add_row(f"[bold yellow]{escape(unreached)}[/]", "", "")
    for problem in scene.problems:
        table.add_row(f"[bold red]problem[/]: {escape(problem)}", "", "")


def _rule(figure: Figure) -> str:
    if not figure.rule:
        return ""
    mark = "[green]✓[/]" if figure.holds else "[bold red]✗[/]"
    return mark if figure.rule == "yes" else f"{mark} {figure.rule}"
