"""The figures of a run, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.table import Table

from culm_infra.demo.dag.witnesses import Witness
from culm_infra.demo.kit.figures import SceneFigures, figure_table
from culm_infra.demo.kit.tables import verdict, whole_run

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """The story under one policy, and what everybody said in the end."""

    scene: SceneFigures
    witnesses: list[Witness]


@dataclass(slots=True)
class DagReport:
    """A whole run."""

    policies: list[PolicyFigures] = field(default_factory=list)
    total_s: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether everything was as it had to be, under every policy."""
        return bool(self.policies) and all(one.scene.holds for one in self.policies)

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return {
            "converged": self.converged,
            "total_s": self.total_s,
            "policies": [
                {
                    "policy": one.scene.name,
                    "holds": one.scene.holds,
                    "duration_s": one.scene.duration_s,
                    "problems": one.scene.problems,
                    "unreached": one.scene.unreached,
                    "figures": [asdict(figure) for figure in one.scene.figures],
                    "replicas": [asdict(witness) for witness in one.witnesses],
                }
                for one in self.policies
            ],
        }


def tables(report: DagReport) -> Iterator[Table]:
    """The report as tables for a terminal of 80 columns."""
    for one in report.policies:
        yield figure_table(one.scene.title, one.scene)
        if one.witnesses:
            yield _replicas(one)
    yield _whole(report)


def _replicas(policy: PolicyFigures) -> Table:
    table = Table(
        title=f"In the end, {policy.scene.name}: what each replica says",
        title_justify="left",
        box=box.SIMPLE,
        pad_edge=False,
    )
    for name in ("who", "where"):
        table.add_column(name, no_wrap=True)
    for name in ("publishes", "order", "tip", "heads"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in policy.witnesses:
        table.add_row(
            one.name,
            one.place,
            str(len(one.order)),
            one.order_digest,
            (one.tip or "–")[-_SHOWN:],
            one.heads_digest or "–",
        )
    return table


def _whole(report: DagReport) -> Table:
    table = whole_run()
    table.add_column()
    table.add_column(justify="right")
    for one in report.policies:
        outcome = verdict(one.scene.problems, one.scene.unreached, good="holds", bad="DOES NOT HOLD")
        table.add_row(one.scene.title, f"{one.scene.duration_s:.1f} s, {outcome}")
    table.add_row("all of it", f"{report.total_s:.1f} s")
    scenes = [one.scene for one in report.policies]
    problems = [one for scene in scenes for one in scene.problems]
    unreached = [one for scene in scenes for one in scene.unreached]
    table.add_row("one order and tip everywhere", verdict(problems, unreached))
    return table
