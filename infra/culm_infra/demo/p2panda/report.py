"""The figures of a run, the verdict, and how both are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from culm_infra.demo.kit.tables import add_findings, columns, verdict, whole_run
from culm_infra.demo.p2panda.audit import SchemaBlocks
from culm_infra.demo.p2panda.sessions import SessionFigures
from culm_infra.demo.p2panda.waits import Wait, listed

_SHOWN_SESSIONS = 16
_SHOWN_SCHEMAS = 4
_NAME_LENGTH = 30


@dataclass(slots=True)
class PeerFigures:
    """One peer in the end. Latencies are in milliseconds, from publishing to the peer's store."""

    name: str
    edge: str
    wanted: int
    held: int
    lost: int
    repeated: int
    differing: int
    vector_logs: int = 0
    vector_behind: int = 0
    live_received: int = 0
    live_p50_ms: float | None = None
    live_p99_ms: float | None = None


@dataclass(slots=True)
class Report:
    """A whole run. ``logs_*`` is what ``LogConsumer`` yielded from the topic ``logs``."""

    peers: list[PeerFigures]
    logs_held: int
    logs_wanted: int
    logs_lost: int
    logs_repeated: int
    logs_differing: int
    forks_expected: int
    forks_found: int
    rejected_by_code: dict[str, int]
    sessions: list[SessionFigures]
    waits: list[Wait]
    blocks: list[SchemaBlocks]
    blocks_differing_logs: int
    blocks_ahead_logs: int
    blocks_wrong_fingerprints: int
    live_published: int
    live_p50_ms: float | None
    live_p99_ms: float | None
    catch_up_s: float
    recovery_s: float
    warm_start_s: float
    warm_start_logs: int
    total_s: float
    problems: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    """What was still missing when nothing changed any more: it may have been on its way."""

    @property
    def converged(self) -> bool:
        """Whether every peer and ``logs`` hold the same bytes, nothing lost, nothing repeated."""
        return not self.problems and not self.unreached

    def judge(self) -> None:
        """Write down everything that is not as it should be."""
        for peer in self.peers:
            self._note_lack(peer.lost, f"{peer.name} lacks {peer.lost} entries")
            self._note(peer.repeated, f"{peer.name} took {peer.repeated} entries twice")
            self._note(peer.differing, f"{peer.name} holds {peer.differing} entries with other bytes")
            behind = peer.vector_behind
            self._note_lack(behind, f"{peer.name} is {behind} entries behind in version-vectors")
        self._note_lack(self.logs_lost, f"logs lacks {self.logs_lost} entries")
        self._note(self.logs_repeated, f"logs yielded {self.logs_repeated} entries twice")
        self._note(self.logs_differing, f"logs holds {self.logs_differing} entries with other bytes")
        ahead, behind = self.blocks_ahead_logs, self.blocks_differing_logs - self.blocks_ahead_logs
        self._note(ahead, f"blocks has more than logs of {ahead} logs")
        self._note_lack(behind, f"blocks is behind logs in {behind} logs")
        wrong = self.blocks_wrong_fingerprints
        self._note(wrong, f"{wrong} blocks have a fingerprint that is not that of their heights")
        if not self.warm_start_logs:
            self.problems.append("the connector with an empty index found nothing in `blocks`")
        if not self.sessions:
            self.problems.append("no session was one of set reconciliation")
        forks = f"{self.forks_found} forked logs found, {self.forks_expected} made"
        self._note(max(self.forks_found - self.forks_expected, 0), forks)
        self._note_lack(max(self.forks_expected - self.forks_found, 0), forks)

    def _note(self, count: int, problem: str) -> None:
        if count:
            self.problems.append(problem)

    def _note_lack(self, count: int, lack: str) -> None:
        if count:
            self.unreached.append(lack)

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return {"converged": self.converged, **asdict(self)}


def tables(report: Report) -> list[Table]:
    """The report as tables for a terminal."""
    return [_sessions(report), _blocks(report), _peers(report), _whole(report)]


def _sessions(report: Report) -> Table:
    """In the order of their ends; of many sessions the first ones."""
    table = columns(
        "Set reconciliation: how each session found out who lacks what",
        ("peer", "when"),
        ("rounds", "bytes sent", "received", "logs that differ"),
    )
    for session in report.sessions[:_SHOWN_SESSIONS]:
        counts = (session.rounds, session.bytes_sent, session.bytes_received, session.differing_logs)
        table.add_row(session.peer, session.chapter, *(f"{count:,}" for count in counts))
    more = len(report.sessions) - _SHOWN_SESSIONS
    if more > 0:
        table.add_row("…", f"{more} more: --json")
    return table


def _blocks(report: Report) -> Table:
    """The largest schemas, and all of them."""
    table = columns(
        "The topic blocks: heights and fingerprints, by schema and author's key",
        ("schema",),
        ("blocks", "logs", "entries"),
    )
    largest = sorted(report.blocks, key=lambda row: -row.logs)
    for row in largest[:_SHOWN_SCHEMAS]:
        name = row.schema_id[:_NAME_LENGTH] + "…" * (len(row.schema_id) > _NAME_LENGTH)
        table.add_row(name, *(f"{count:,}" for count in (row.blocks, row.logs, row.entries)))
    more = len(largest) - _SHOWN_SCHEMAS
    if more > 0:
        table.add_row(f"and {more} smaller ones")
    table.add_section()
    totals = [sum(getattr(row, name) for row in report.blocks) for name in ("blocks", "logs", "entries")]
    table.add_row("all", *(f"{total:,}" for total in totals))
    return table


def _peers(report: Report) -> Table:
    table = columns(
        "In the end: entries held, version vectors, live latency in ms",
        ("peer", "edge"),
        ("entries", "lost", "twice", "differ", "logs", "behind", "p50", "p99"),
    )
    for peer in report.peers:
        counts = (peer.held, peer.lost, peer.repeated, peer.differing, peer.vector_logs, peer.vector_behind)
        latencies = (_ms(peer.live_p50_ms), _ms(peer.live_p99_ms))
        table.add_row(peer.name, peer.edge, *(f"{count:,}" for count in counts), *latencies)
    table.add_section()
    in_logs = (report.logs_held, report.logs_lost, report.logs_repeated, report.logs_differing)
    table.add_row("logs", "(topic)", *(f"{count:,}" for count in in_logs), "", "", "", "")
    return table


def _whole(report: Report) -> Table:
    whole = whole_run()
    whole.add_row(
        "live latency, peer to peer",
        f"{_ms(report.live_p50_ms)} ms p50, {_ms(report.live_p99_ms)} ms p99",
    )
    whole.add_row("published live", f"{report.live_published:,} entries")
    whole.add_row("forked logs found", f"{report.forks_found} of {report.forks_expected}")
    refused = ", ".join(f"{code} {count}" for code, count in sorted(report.rejected_by_code.items()))
    whole.add_row("on the topic rejected", refused or "nothing")
    whole.add_row("caught up after", f"{report.catch_up_s:.1f} s")
    whole.add_row("whole again after kill -9", f"{report.recovery_s:.1f} s")
    warm_start = f"{report.warm_start_s:.1f} s, with {report.warm_start_logs:,} logs from blocks"
    whole.add_row("serving from an empty index", warm_start)
    whole.add_row("identical bytes everywhere", verdict(report.problems, report.unreached))
    for wait in report.waits:
        if wait.missing:
            whole.add_row(
                f"gave up waiting ({wait.chapter})",
                f"after {wait.waited_s:.0f} s without {listed(wait.missing)}",
            )
    add_findings(whole, report.problems, report.unreached)
    return whole


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"
