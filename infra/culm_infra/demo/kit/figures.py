"""What a scene shows: figures, for most of them what they have to be, and their table."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich import box
from rich.table import Table

from culm_infra.errors import InfraError, NotReached

Value = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `rule` says what it has to be, in words; empty where it is only shown."""

    label: str
    value: Value
    unit: str = ""
    rule: str = ""
    holds: bool = True


@dataclass(slots=True)
class SceneFigures:
    """The figures of one scene. `problems`: in words, figures that are wrong and what stopped the scene.

    `unreached`: what it waited for until nothing changed any more.
    """

    name: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    duration_s: float = 0.0

    def stop(self, error: InfraError) -> None:
        """The scene ended here."""
        (self.unreached if isinstance(error, NotReached) else self.problems).append(str(error))

    @property
    def holds(self) -> bool:
        """Whether everything was as it had to be."""
        return not self.problems and not self.unreached and all(figure.holds for figure in self.figures)

    def show(self, label: str, value: Value, unit: str = "") -> None:
        """A figure that nothing is demanded of."""
        self.figures.append(Figure(label, value, unit))

    def equal(self, label: str, value: Value, wanted: Value, unit: str = "") -> None:
        """A figure that has to be this very one."""
        self._demand(Figure(label, value, unit, f"= {as_text(wanted)}", value == wanted))

    def at_most(self, label: str, value: float, limit: float, unit: str = "") -> None:
        """A figure that has an upper limit."""
        self._demand(Figure(label, value, unit, f"≤ {as_text(limit)}", value <= limit))

    def at_least(self, label: str, value: float, limit: float, unit: str = "") -> None:
        """A figure that has a lower limit."""
        self._demand(Figure(label, value, unit, f"≥ {as_text(limit)}", value >= limit))

    def demand(self, label: str, *, holds: bool) -> None:
        """Something that has to be so."""
        self._demand(Figure(label, holds, "", "yes", holds))

    def _demand(self, figure: Figure) -> None:
        self.figures.append(figure)
        if not figure.holds:
            self.problems.append(f"{figure.label}: {as_text(figure.value)}, not {figure.rule}")


def as_text(value: Value) -> str:
    """A value for people."""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return value


def figure_table(title: str, scene: SceneFigures) -> Table:
    """The figures of a scene as a table for a terminal of 80 columns."""
    table = Table(
        title=title,
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
    for unreached in scene.unreached:
        table.add_row(f"[bold yellow]{unreached}[/]", "", "")
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
