"""The verdict: the evidence in the topics, each peer's store, and the report made of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from culm_infra.demo.kit.percentile import percentile
from culm_infra.demo.p2panda import audit
from culm_infra.demo.p2panda.audit import BlockAudit, Bytes, EntryKey, Refusals, audit_blocks
from culm_infra.demo.p2panda.cast import Actor
from culm_infra.demo.p2panda.plan import Plan
from culm_infra.demo.p2panda.report import PeerFigures, Report
from culm_infra.demo.p2panda.sessions import SessionBook
from culm_infra.demo.p2panda.waits import SHOWN_LOGS, LogGap, Unmet, Wait
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.version_vectors import Vectors, read_vectors


@dataclass(frozen=True, slots=True)
class ConnectorStart:
    """A connector's start with an empty index: when it served, and how many logs it learned from `blocks`."""

    served_s: float
    logs: int


@dataclass(frozen=True, slots=True)
class Timings:
    """How long the chapters took, in seconds."""

    catch_up_s: float
    recovery_s: float
    warm_start: ConnectorStart
    total_s: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the topics hold; ``wanted`` is schema id and height by log, as published."""

    wanted: Mapping[LogKey, tuple[str, int]]
    logs: Sequence[tuple[EntryKey, Bytes]]
    vectors: Vectors
    refusals: Refusals
    blocks: BlockAudit

    def logs_of(self, actor: Actor) -> list[LogKey]:
        """The logs that an actor is interested in."""
        return [log for log, (schema, _height) in self.wanted.items() if schema in actor.plan.schema_ids]

    def behind(self, actor: Actor) -> int:
        """How many entries the topic does not know the actor to hold, of all that were published."""
        return sum(
            max(0, self.wanted[log][1] - self.vectors.height(actor.peer.peer_id, log))
            for log in self.logs_of(actor)
        )

    def gaps(self, actor: Actor) -> list[LogGap]:
        """The logs of which the topic does not know the actor to hold everything, the widest gaps first."""
        found = [
            LogGap(f"{log[0].hex()}/{log[1]}", held, self.wanted[log][1])
            for log in self.logs_of(actor)
            if (held := self.vectors.height(actor.peer.peer_id, log)) < self.wanted[log][1]
        ]
        return sorted(found, key=lambda gap: (gap.held - gap.wanted, gap.log))

    def unmet(self, plan: Plan, actors: Sequence[Actor]) -> tuple[Unmet, ...]:
        """What is still on its way: the conditions that do not hold; none when all has settled."""
        lost = audit.compare(signed_entries(plan), self.logs, plan.fork).lost
        conditions = [
            Unmet("logs", None, lost, "entries"),
            Unmet("rejected", None, int(plan.fork.log not in self.refusals.forked), "forks"),
            *(
                Unmet(
                    "version-vectors",
                    actor.plan.name,
                    self.behind(actor),
                    "entries",
                    tuple(self.gaps(actor)[:SHOWN_LOGS]),
                )
                for actor in actors
            ),
            Unmet("blocks", None, self.blocks.differing_logs, "logs"),
        ]
        return tuple(one for one in conditions if one.count)


def gather(kafka: KafkaSettings, wanted: Mapping[LogKey, tuple[str, int]]) -> Evidence:
    """Read the topics as they are now."""
    logs = audit.read_logs(kafka)
    heights: dict[LogKey, int] = {}
    for (public_key, log_id, seq_num), _ in logs:
        heights[public_key, log_id] = max(seq_num, heights.get((public_key, log_id), 0))
    refusals = audit.read_refusals(kafka)
    return Evidence(wanted, logs, read_vectors(kafka), refusals, audit_blocks(kafka, heights))


def signed_entries(plan: Plan) -> dict[EntryKey, Bytes]:
    """Every entry that was ever signed on a common branch, by its place."""
    logs = [*plan.logs, plan.trunk, *(peer.writer.log() for peer in plan.peers)]
    return {
        (log.public_key, log.log_id, seq_num): pair
        for log in logs
        for seq_num, pair in enumerate(log.entries, start=1)
    }


def judge(
    plan: Plan,
    actors: Sequence[Actor],
    evidence: Evidence,
    timings: Timings,
    book: SessionBook,
    waits: Sequence[Wait],
) -> Report:
    """Compare everything with everything, and say what is not as it should be."""
    signed = signed_entries(plan)
    logs = audit.compare(signed, evidence.logs, plan.fork)
    latencies_ms = [latency for actor in actors for latency in actor.latencies_ms]
    report = Report(
        peers=[_figures(plan, actor, signed, evidence) for actor in actors],
        logs_held=logs.held,
        logs_wanted=logs.wanted,
        logs_lost=logs.lost,
        logs_repeated=logs.repeated,
        logs_differing=logs.differing,
        forks_expected=1,
        forks_found=len(evidence.refusals.forked),
        rejected_by_code=evidence.refusals.by_code,
        sessions=book.done,
        waits=list(waits),
        blocks=list(evidence.blocks.schemas),
        blocks_differing_logs=evidence.blocks.differing_logs,
        blocks_ahead_logs=evidence.blocks.ahead_logs,
        blocks_wrong_fingerprints=evidence.blocks.wrong_fingerprints,
        live_published=sum(len(actor.plan.writer.entries) - 1 for actor in actors),
        live_p50_ms=percentile(latencies_ms, 0.5),
        live_p99_ms=percentile(latencies_ms, 0.99),
        catch_up_s=timings.catch_up_s,
        recovery_s=timings.recovery_s,
        warm_start_s=timings.warm_start.served_s,
        warm_start_logs=timings.warm_start.logs,
        total_s=timings.total_s,
    )
    report.judge()
    return report


def _figures(plan: Plan, actor: Actor, signed: Mapping[EntryKey, Bytes], evidence: Evidence) -> PeerFigures:
    interest = set(evidence.logs_of(actor))
    wanted = {key: data for key, data in signed.items() if (key[0], key[1]) in interest}
    holding = audit.compare(wanted, actor.held(), plan.fork)
    return PeerFigures(
        name=actor.plan.name,
        edge=actor.plan.edge_name,
        wanted=holding.wanted,
        held=holding.held,
        lost=holding.lost,
        repeated=actor.repeated,
        differing=holding.differing,
        vector_logs=evidence.vectors.logs_of(actor.peer.peer_id),
        vector_behind=evidence.behind(actor),
        live_received=len(actor.latencies_ms),
        live_p50_ms=percentile(actor.latencies_ms, 0.5),
        live_p99_ms=percentile(actor.latencies_ms, 0.99),
    )
