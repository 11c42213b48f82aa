"""The verdict: the evidence in the topics, each peer's store, and the report made of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from culm_infra.demo import audit
from culm_infra.demo.audit import Bytes, EntryKey, Refusals
from culm_infra.demo.cast import Actor
from culm_infra.demo.plan import Plan
from culm_infra.demo.report import PeerFigures, Report, percentile
from culm_models.p2panda.store import LogKey
from culm_topics.kafka import KafkaSettings
from culm_topics.vectors import Vectors, read_vectors


@dataclass(frozen=True, slots=True)
class Timings:
    """How long the chapters took, in seconds."""

    catch_up_s: float
    recovery_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the topics hold; ``wanted`` is schema id and height by log, as published."""

    wanted: Mapping[LogKey, tuple[str, int]]
    logs: Sequence[tuple[EntryKey, Bytes]]
    vectors: Vectors
    refusals: Refusals

    def logs_of(self, actor: Actor) -> list[LogKey]:
        """The logs that an actor is interested in."""
        return [log for log, (schema, _height) in self.wanted.items() if schema in actor.plan.schema_ids]

    def behind(self, actor: Actor) -> int:
        """How many entries the topic does not know the actor to hold, of all that were published."""
        return sum(
            max(0, self.wanted[log][1] - self.vectors.height(actor.peer.peer_id, log))
            for log in self.logs_of(actor)
        )

    def settled(self, plan: Plan, actors: Sequence[Actor]) -> bool:
        """Whether nothing is still on its way."""
        complete = not audit.compare(signed_entries(plan), self.logs, plan.fork).lost
        return complete and plan.fork.log in self.refusals.forked and not any(map(self.behind, actors))


def gather(kafka: KafkaSettings, wanted: Mapping[LogKey, tuple[str, int]]) -> Evidence:
    """Read the topics as they are now."""
    return Evidence(wanted, audit.read_logs(kafka), read_vectors(kafka), audit.read_refusals(kafka))


def signed_entries(plan: Plan) -> dict[EntryKey, Bytes]:
    """Every entry that was ever signed on a common branch, by its place."""
    logs = [*plan.logs, plan.trunk, *(peer.writer.log() for peer in plan.peers)]
    return {
        (log.public_key, log.log_id, seq_num): pair
        for log in logs
        for seq_num, pair in enumerate(log.entries, start=1)
    }


def judge(plan: Plan, actors: Sequence[Actor], evidence: Evidence, timings: Timings) -> Report:
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
        live_published=sum(len(actor.plan.writer.entries) - 1 for actor in actors),
        live_p50_ms=percentile(latencies_ms, 0.5),
        live_p99_ms=percentile(latencies_ms, 0.99),
        catch_up_s=timings.catch_up_s,
        recovery_s=timings.recovery_s,
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
