"""The figures of a run of the Chotki demo, the verdict, and how both are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from culm_infra.demo.kit.percentile import percentile
from culm_infra.demo.kit.tables import add_findings, columns, verdict, whole_run

_WHAT = {
    "F": "floats",
    "I": "integers",
    "R": "references",
    "S": "strings",
    "T": "terms",
    "N": "sums that grow",
    "Z": "counters",
    "E": "sets",
    "M": "maps",
    "L": "lists",
    "V": "vectors",
    "C": "classes",
    "O": "objects",
    "Y": "replica objects",
}
_UNORDERED = "L"
"""The type that has no merge: the order of arrival decides, and replicas differ in it by nature."""


@dataclass(frozen=True, slots=True)
class HolderFigures:
    """One holder in the end; `place` is its edge and transport. Hashes leave lists out."""

    name: str
    kind: str
    place: str
    fields: int
    sources: int
    lacking_fields: int
    lacking_vectors: int
    state_hash: str
    vector_hash: str
    sessions: int
    made: int


@dataclass(frozen=True, slots=True)
class TypeFigures:
    """One type: changes that were made, its fields, and in how many of them holders differ."""

    letter: str
    made: int
    fields: int
    differing: int


@dataclass(slots=True)
class ChotkiReport:
    """A whole run. `latencies_ms`: of live packets, from a replica to another one at another edge or not."""

    holders: list[HolderFigures]
    types: list[TypeFigures]
    wrong_sums: int
    replayed: int
    recorded_bytes: int
    recovery_s: float
    settled_s: float
    total_s: float
    latencies_ms: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    """What somebody lacked when nothing changed any more: each of them can still take it over."""

    @property
    def converged(self) -> bool:
        """Whether everybody holds the same, with nothing lost and nothing counted twice."""
        return not self.problems and not self.unreached

    def judge(self) -> None:
        """Write down everything that is not as it should be."""
        for one in self.holders:
            self._note_lack(one.lacking_fields, f"{one.name} lacks changes of {one.lacking_fields} fields")
            self._note_lack(one.lacking_vectors, f"{one.name} is behind in {one.lacking_vectors} vectors")
        if not self.unreached and len({(one.state_hash, one.vector_hash) for one in self.holders}) > 1:
            self.problems.append("the hashes of states and vectors differ")
        for kind in self.types:
            differing = kind.differing if kind.letter != _UNORDERED else 0
            self._note_lack(differing, f"{differing} fields of type {kind.letter} are not yet the same")
            if not kind.made:
                self.problems.append(f"nothing of type {kind.letter} was changed")
        self._note(self.wrong_sums, f"{self.wrong_sums} counters are not what was added to them")

    def _note(self, count: int, problem: str) -> None:
        if count:
            self.problems.append(problem)

    def _note_lack(self, count: int, lack: str) -> None:
        if count:
            self.unreached.append(lack)

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return {
            "converged": self.converged,
            "live_p50_ms": percentile(self.latencies_ms, 0.5),
            "live_p99_ms": percentile(self.latencies_ms, 0.99),
            **asdict(self),
        }


def tables(report: ChotkiReport) -> list[Table]:
    """The report as tables for a terminal of 80 columns."""
    return [_holders(report), _types(report), _whole(report)]


def _holders(report: ChotkiReport) -> Table:
    table = columns(
        "In the end: what each holds", ("who", "where", "state", "vectors"), ("fields", "wrong", "made")
    )
    for one in report.holders:
        counts = (one.fields, one.lacking_fields + one.lacking_vectors)
        cells = (*(f"{count:,}" for count in counts), f"{one.made:,}" if one.made else "–")
        table.add_row(one.name, one.place, one.state_hash[:8], one.vector_hash[:8], *cells)
    return table


def _types(report: ChotkiReport) -> Table:
    table = columns("Every type", ("type", ""), ("changes", "fields", "alike"))
    for one in report.types:
        alike = f"{one.fields - one.differing:,}" if one.letter != _UNORDERED else "–"
        table.add_row(one.letter, _WHAT[one.letter], f"{one.made:,}", f"{one.fields:,}", alike)
    return table


def _whole(report: ChotkiReport) -> Table:
    whole = whole_run()
    latencies = report.latencies_ms
    whole.add_row(
        "live, from replica to replica",
        f"{_ms(percentile(latencies, 0.5))} ms p50, {_ms(percentile(latencies, 0.99))} ms p99",
    )
    whole.add_row("bytes of a Go replica", f"{report.recorded_bytes:,}, said {report.replayed} times")
    whole.add_row("alike after kill -9 of an edge and the job", f"{report.recovery_s:.1f} s")
    whole.add_row("alike after the last edit", f"{report.settled_s:.1f} s")
    whole.add_row("lists (L)", "not compared: nothing merges them")
    whole.add_row("equal state and vectors everywhere", verdict(report.problems, report.unreached))
    add_findings(whole, report.problems, report.unreached)
    return whole


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
