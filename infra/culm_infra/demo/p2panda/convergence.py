"""Convergence: the contents of the topics and of each peer's store, and the report made of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from culm_infra.columns import Columns, Row, of
from culm_infra.demo.kit.report import Listing, SceneFigures, in_ms, percentile, whole
from culm_infra.demo.p2panda import audit
from culm_infra.demo.p2panda.actors import FinishedSessions, PeerActor
from culm_infra.demo.p2panda.audit import BlockAudit, Bytes, EntryKey, RejectedSummary, audit_blocks
from culm_infra.demo.p2panda.concurrent_edits import EDITED_DOCUMENT, ConcurrentEdits
from culm_infra.demo.p2panda.documents import DocumentAudit, Records, compare_documents, read_documents
from culm_infra.demo.p2panda.plan import DemoPlan
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.version_vectors import Vectors, read_vectors

_NAME_LENGTH: Final = 30
_FORKS: Final = 1
_SHOWN_GAPS: Final = 2


@dataclass(frozen=True, slots=True)
class ConnectorStart:
    """A connector's start with an empty index: seconds until it served, and the logs it learned from
    `blocks`.
    """

    served_s: float
    logs: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations of the chapters, in seconds."""

    catch_up_s: float
    recovery_s: float
    warm_start: ConnectorStart


@dataclass(frozen=True, slots=True)
class Evidence:
    """Contents of the topics; ``wanted`` is schema id and height by log, as published."""

    wanted: Mapping[LogKey, tuple[str, int]]
    logs: Sequence[tuple[EntryKey, Bytes]]
    vectors: Vectors
    rejected: RejectedSummary
    blocks: BlockAudit
    documents: DocumentAudit

    def logs_of(self, actor: PeerActor) -> list[LogKey]:
        """Return the logs in the actor's schemas."""
        return [log for log, (schema, _height) in self.wanted.items() if schema in actor.plan.schema_ids]

    def behind(self, actor: PeerActor) -> int:
        """Return how many published entries the topic does not list as held by the actor."""
        return sum(
            max(0, self.wanted[log][1] - self.vectors.height(actor.peer.peer_id, log))
            for log in self.logs_of(actor)
        )

    def gaps(self, actor: PeerActor) -> str:
        """Return in words the widest gaps in what the topic lists as held by the actor."""
        gaps = sorted(
            (height - self.wanted[log][1], log, height)
            for log in self.logs_of(actor)
            if (height := self.vectors.height(actor.peer.peer_id, log)) < self.wanted[log][1]
        )
        texts = [
            f"{key.hex()}/{log_id}: {height} of {self.wanted[key, log_id][1]}"
            for _, (key, log_id), height in gaps[:_SHOWN_GAPS]
        ]
        return "; ".join([*texts, *(["…"] if len(gaps) > _SHOWN_GAPS else [])])

    def unmet(self, plan: DemoPlan, actors: Sequence[PeerActor]) -> list[str]:
        """Return what is still in transit, in words; empty when everything has settled."""
        lost = audit.compare(signed_entries(plan), self.logs, plan.fork).lost
        conditions = [
            (lost, f"logs lacks {lost} entries"),
            (plan.fork.log not in self.rejected.forked, "the forked log is not on rejected"),
        ]
        for actor in actors:
            if behind := self.behind(actor):
                text = f"{actor.plan.name} is {behind} entries behind in version-vectors ({self.gaps(actor)})"
                conditions.append((behind, text))
        behind = self.blocks.differing_logs - self.blocks.ahead_logs
        conditions.append((behind, f"blocks is behind logs in {behind} logs"))
        behind = self.documents.behind
        conditions.append((behind, f"the topic documents is behind in {behind} documents"))
        return [text for count, text in conditions if count]


def gather(
    kafka: KafkaSettings, wanted: Mapping[LogKey, tuple[str, int]], held: Mapping[str, Records]
) -> Evidence:
    """Read the topics in their present state; `held` are the documents of peers by their names."""
    logs = audit.read_logs(kafka)
    heights: dict[LogKey, int] = {}
    for (public_key, log_id, seq_num), _ in logs:
        heights[public_key, log_id] = max(seq_num, heights.get((public_key, log_id), 0))
    rejected = audit.read_rejected(kafka)
    documents = compare_documents(held, read_documents(kafka)) if held else DocumentAudit()
    return Evidence(wanted, logs, read_vectors(kafka), rejected, audit_blocks(kafka, heights), documents)


def signed_entries(plan: DemoPlan) -> dict[EntryKey, Bytes]:
    """Return every signed entry on a common branch, by its key."""
    writers = [*(peer.writer for peer in plan.peers), *plan.editors]
    logs = [*plan.logs, plan.trunk, *(writer.log() for writer in writers)]
    return {
        (log.public_key, log.log_id, seq_num): pair
        for log in logs
        for seq_num, pair in enumerate(log.entries, start=1)
    }


PEERS: Final[Columns] = {
    "peer": "name",
    "edge": "edge",
    "entries": "held",
    "lost": "lost",
    "twice": "repeated",
    "differ": "differing",
    "logs": "vector_logs",
    "behind": "vector_behind",
    "p50": lambda row: whole(row["live_p50_ms"]),
    "p99": lambda row: whole(row["live_p99_ms"]),
}
SESSIONS: Final[Columns] = {
    "peer": "peer",
    "when": "chapter",
    "rounds": "rounds",
    "bytes sent": "bytes_sent",
    "received": "bytes_received",
    "logs that differ": "differing_logs",
}
BLOCKS: Final[Columns] = {
    "schema": of("schema_id", lambda name: name[:_NAME_LENGTH] + "…" * (len(name) > _NAME_LENGTH)),
    "blocks": "blocks",
    "logs": "logs",
    "entries": "entries",
}


def check_convergence(
    plan: DemoPlan,
    actors: Sequence[PeerActor],
    evidence: Evidence,
    timings: Timings,
    sessions: FinishedSessions,
    edits: ConcurrentEdits,
) -> SceneFigures:
    """Compare all peers and topics, and report differences."""
    scene = SceneFigures("p2panda", "Peers at two edges", unreached=evidence.unmet(plan, actors))
    signed = signed_entries(plan)
    peers = [_peer(plan, actor, signed, evidence) for actor in actors]
    schemas = sorted(map(asdict, evidence.blocks.schemas), key=lambda row: -row["logs"])
    scene.listings += [
        Listing(
            "sessions",
            "Set reconciliation: how each session found out who lacks what",
            SESSIONS,
            [asdict(session) for session in sessions.done],
            words=2,
            limit=16,
        ),
        Listing(
            "blocks",
            "The topic blocks: heights and fingerprints, by schema and author's key",
            BLOCKS,
            schemas,
            limit=4,
        ),
        Listing(
            "document",
            "One document, edited at both edges at once: the peers and the job reduce it alike",
            EDITED_DOCUMENT,
            edits.rows(evidence.documents),
            words=2,
        ),
        Listing(
            "peers", "In the end: entries held, version vectors, live latency in ms", PEERS, peers, words=2
        ),
    ]
    for peer in peers:
        name = peer["name"]
        scene.add_missing(peer["lost"], f"{name} lacks {peer['lost']} entries")
        scene.add_problem(peer["repeated"], f"{name} took {peer['repeated']} entries twice")
        scene.add_problem(peer["differing"], f"{name} holds {peer['differing']} entries with other bytes")
    logs = audit.compare(signed, evidence.logs, plan.fork)
    scene.add_problem(logs.repeated, f"logs yielded {logs.repeated} entries twice")
    scene.add_problem(logs.differing, f"logs holds {logs.differing} entries with other bytes")
    blocks = evidence.blocks
    scene.add_problem(blocks.ahead_logs, f"blocks has more than logs of {blocks.ahead_logs} logs")
    wrong = blocks.wrong_fingerprints
    scene.add_problem(wrong, f"{wrong} blocks have a fingerprint that is not that of their heights")
    documents = evidence.documents
    scene.add_problem(edits.differs, "the peers reduced the document with two heads to different bytes")
    forked = len(evidence.rejected.forked)
    scene.add_problem(forked > _FORKS, f"{forked} forked logs found, {_FORKS} made")
    refused = ", ".join(f"{code} {count}" for code, count in sorted(evidence.rejected.by_code.items()))
    latencies_ms = [latency for actor in actors for latency in actor.latencies_ms]
    scene.show("live latency, peer to peer", in_ms(latencies_ms))
    scene.show("published live", sum(len(actor.plan.writer.entries) - 1 for actor in actors), "entries")
    scene.show("in logs, on common branches", logs.held, "entries")
    scene.show("forked logs found", forked)
    scene.show("on the topic rejected", refused or "nothing")
    edited = documents.topic.get(edits.document_id)
    # Documents that the topic has not reached yet are among the conditions, and are no problem.
    reached = documents.documents - documents.behind
    scene.equal("documents alike, peers and topic", documents.alike, reached)
    scene.show("document edited at both edges", 0 if edited is None else edited.version, "operations")
    scene.at_least("sessions of set reconciliation", len(sessions.done), 1)
    scene.show("caught up after", timings.catch_up_s, "s")
    scene.show("whole again after kill -9", timings.recovery_s, "s")
    scene.show("serving from an empty index", timings.warm_start.served_s, "s")
    scene.at_least("with logs from blocks", timings.warm_start.logs, 1)
    return scene


def _peer(plan: DemoPlan, actor: PeerActor, signed: Mapping[EntryKey, Bytes], evidence: Evidence) -> Row:
    interest = set(evidence.logs_of(actor))
    wanted = {key: data for key, data in signed.items() if (key[0], key[1]) in interest}
    holding = audit.compare(wanted, actor.held(), plan.fork)
    return {
        "name": actor.plan.name,
        "edge": actor.plan.edge_name,
        **asdict(holding),
        "repeated": actor.repeated,
        "vector_logs": evidence.vectors.logs_of(actor.peer.peer_id),
        "vector_behind": evidence.behind(actor),
        "live_received": len(actor.latencies_ms),
        "live_p50_ms": percentile(actor.latencies_ms, 0.5),
        "live_p99_ms": percentile(actor.latencies_ms, 0.99),
    }
