"""The figures of a run of the SDS demo, the verdict, and how both are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich import box
from rich.table import Table

from culm_infra.demo.kit.percentile import percentile
from culm_infra.demo.kit.tables import add_findings, columns, verdict, whole_run

_SHOWN_LINES = 8


@dataclass(slots=True)
class ParticipantFigures:
    """One participant in the end. Latencies: milliseconds from sending a message to knowing it was heard."""

    name: str
    kind: str
    edge: str
    wanted: int
    held: int
    lost: int
    twice: int
    differing: int
    sent: int
    acknowledged: int
    gave_up: int
    log_hash: str
    ephemeral: int
    latencies_ms: list[float] = field(default_factory=list)


@dataclass(slots=True)
class ChannelFigures:
    """One channel as the pipeline has it: the log of its events, and the store."""

    channel_id: str
    profile: str
    messages: int
    log_hash: str
    logs_alike: bool
    stored: int
    stored_twice: int
    retries: int
    repairs: int
    syncs: int
    broadcast_bytes: int
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class NetworkFigures:
    """What the bad network did to messages on their way between full participants and their edges."""

    passed: int
    lost: int
    doubled: int
    cut_s: float


@dataclass(slots=True)
class SdsReport:
    """A whole run. `unmet`: what was still on its way when nothing changed any more."""

    participants: list[ParticipantFigures]
    channels: list[ChannelFigures]
    network: NetworkFigures
    missing_acks: int
    recovery_s: float
    settled_s: float
    total_s: float
    unmet: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether all logs are the same, with nothing lost, repeated or given up."""
        return not self.problems and not self.unmet

    @property
    def latencies_ms(self) -> list[float]:
        """Of all participants."""
        return [latency for one in self.participants for latency in one.latencies_ms]

    def judge(self) -> None:
        """Write down everything that is not as it should be."""
        for one in self.participants:
            # What somebody gave up does not come any more; all else that is missing may be on its way.
            self._note_lack(one.lost, f"{one.name} lacks {one.lost} messages")
            self._note(one.twice, f"{one.name} received {one.twice} messages twice")
            self._note(
                one.differing, f"{one.name} holds {one.differing} messages otherwise than their senders"
            )
            self._note(one.gave_up, f"{one.name} gave up {one.gave_up} messages")
        for channel in self.channels:
            if not channel.logs_alike and not self.unmet:
                self.problems.append(f"the logs of {channel.channel_id} differ")
            self._note(channel.stored_twice, f"the store has {channel.stored_twice} messages twice")
            missing = channel.messages - channel.stored
            self._note_lack(missing, f"the store lacks {missing} messages of {channel.channel_id}")
        acks = self.missing_acks
        self._note_lack(acks, f"{acks} messages are not known to have been heard")

    def _note_lack(self, count: int, lack: str) -> None:
        if count and lack not in self.unmet:
            self.unmet.append(lack)

    def _note(self, count: int, problem: str) -> None:
        if count:
            self.problems.append(problem)

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return {
            "converged": self.converged,
            "ack_p50_ms": percentile(self.latencies_ms, 0.5),
            "ack_p99_ms": percentile(self.latencies_ms, 0.99),
            **asdict(self),
        }


def tables(report: SdsReport) -> list[Table]:
    """The report as tables for a terminal of 80 columns."""
    return [_chat(report), _participants(report), _channels(report), _whole(report)]


def _chat(report: SdsReport) -> Table:
    """The end of one conversation, as everybody has it."""
    channel = report.channels[0]
    title = f"The end of the channel {channel.channel_id}, in the order that everybody sees"
    table = Table(
        title=title,
        title_justify="left",
        min_width=len(title),
        show_header=False,
        box=box.SIMPLE,
        pad_edge=False,
    )
    for line in channel.lines[-_SHOWN_LINES:]:
        table.add_row(line)
    return table


def _participants(report: SdsReport) -> Table:
    table = columns(
        "In the end: the logs, and seconds from sending to acknowledgement",
        ("participant", "kind", "edge"),
        ("log", "wrong", "sent", "acked", "p50", "p99"),
    )
    for one in report.participants:
        wrong = one.lost + one.twice + one.differing
        counts = (one.held, wrong, one.sent, one.acknowledged)
        times = (_seconds(percentile(one.latencies_ms, share)) for share in (0.5, 0.99))
        table.add_row(one.name, one.kind, one.edge, *(f"{count:,}" for count in counts), *times)
    return table


def _channels(report: SdsReport) -> Table:
    table = columns(
        "The channels",
        ("channel", "profile", "log"),
        ("messages", "re-sent", "repaired", "syncs", "kB sent"),
    )
    for one in report.channels:
        counts = (one.messages, one.retries, one.repairs, one.syncs, one.broadcast_bytes // 1_000)
        log = one.log_hash[:8] if one.logs_alike else "DIFFERS"
        table.add_row(one.channel_id, one.profile, log, *(f"{count:,}" for count in counts))
    return table


def _whole(report: SdsReport) -> Table:
    whole = whole_run()
    network = report.network
    latencies = report.latencies_ms
    whole.add_row(
        "from sending to heard",
        f"{_ms(percentile(latencies, 0.5))} ms p50, {_ms(percentile(latencies, 0.99))} ms p99",
    )
    crossed = network.passed + network.lost
    whole.add_row(
        "the bad network",
        f"{network.lost:,} of {crossed:,} messages lost, {network.doubled:,} doubled; "
        f"one edge cut off for {network.cut_s:.0f} s",
    )
    whole.add_row("working again after kill -9 of the job", f"{report.recovery_s:.1f} s")
    whole.add_row("all at rest after the last word", f"{report.settled_s:.1f} s")
    whole.add_row("identical logs everywhere", verdict(report.problems, report.unmet))
    add_findings(whole, report.problems, report.unmet)
    return whole


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _seconds(value_ms: float | None) -> str:
    return "–" if value_ms is None else f"{value_ms / 1_000:,.1f}"
