"""Convergence: the logs of participants, pipeline and store, compared message by message."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from culm_infra.columns import Columns, of
from culm_infra.demo.kit.report import Listing, SceneFigures, in_ms, percentile
from culm_infra.demo.sds.actors import ParticipantActor, Transcript
from culm_infra.demo.sds.plan import EDGES, ParticipantRole, settings_of
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import read_to_end
from culm_topics.sds.events import SdsEventReader
from culm_topics.sds.keys import split_channel_key
from culm_topics.sds.records import SdsMessageRecord, SdsOutRecord

_SHOWN_LINES: Final = 8
Log = list[tuple[int, str, str, bytes]]
"""(Lamport timestamp, message id, sender id, content), in order."""


@dataclass(slots=True)
class Pipeline:
    """Contents of the topics by channel: the events, the store's ids, and the bytes that the job
    broadcast.
    """

    transcripts: dict[str, Transcript]
    stored: dict[str, Counter[str]]
    broadcast_bytes: Counter[str]


def gather(kafka: KafkaSettings, channels: Sequence[str]) -> Pipeline:
    """Read the topics in their present state; every event once, as any consumer would."""
    transcripts = {channel: Transcript("") for channel in channels}
    with SdsEventReader(kafka, channels, follow=False, strict=True) as events:
        for received in events:
            transcripts[received.channel_id].record(received.event)
    stored: dict[str, Counter[str]] = {channel: Counter() for channel in channels}
    for message in read_to_end(kafka, "sds.messages"):
        channel = split_channel_key(message.key)
        if channel in stored:
            stored[channel][SdsMessageRecord.decode(message.value).message_id] += 1
    broadcast_bytes: Counter[str] = Counter()
    for message in read_to_end(kafka, "sds.out"):
        broadcast_bytes[split_channel_key(message.key)] += len(SdsOutRecord.decode(message.value).wire)
    return Pipeline(transcripts, stored, broadcast_bytes)


def log_hash(log: Log) -> str:
    """Return the SHA-256 over ids, senders and contents in their order, which identifies a log."""
    digest = hashlib.sha256()
    for lamport, message_id, sender, content in log:
        for field in (str(lamport).encode(), message_id.encode(), sender.encode(), content):
            digest.update(len(field).to_bytes(4, "big") + field)
    return digest.hexdigest()


def wanted_log(transcripts: Mapping[str, Transcript]) -> Log:
    """Return the log that every participant must have: all messages, as their senders have them."""
    rows = [
        row for transcript in transcripts.values() for row in transcript.log() if row[1] in transcript.sent_ms
    ]
    return sorted(rows, key=lambda row: (row[0], row[1].encode()))


def last_message(role: ParticipantRole, wanted: Log) -> frozenset[str]:
    """Return the id of the last message in a channel without syncs, which nobody can acknowledge."""
    has_syncs = settings_of(role.profile).sync_messages
    return frozenset() if has_syncs or not wanted else frozenset((wanted[-1][1],))


def unheard(transcript: Transcript, last: frozenset[str]) -> set[str]:
    """Return the sent messages that are neither acknowledged nor given up."""
    return transcript.sent_ms.keys() - transcript.heard_ms.keys() - transcript.gave_up - last


PARTICIPANTS: Final[Columns] = {
    "participant": "name",
    "kind": "kind",
    "edge": "edge",
    "log": "held",
    "wrong": lambda row: row["lost"] + row["twice"] + row["differing"],
    "sent": "sent",
    "acked": "acknowledged",
    "p50": of("ack_p50_ms", lambda value: f"{value / 1_000:,.1f}"),
    "p99": of("ack_p99_ms", lambda value: f"{value / 1_000:,.1f}"),
}
CHANNELS: Final[Columns] = {
    "channel": "channel_id",
    "profile": "profile",
    "log": lambda row: row["log_hash"][:8] if row["logs_alike"] else "DIFFERS",
    "messages": "messages",
    "re-sent": "retries",
    "repaired": "repairs",
    "syncs": "syncs",
    "kB sent": of("broadcast_bytes", lambda size: size // 1_000),
}


def check_convergence(
    actors: Sequence[ParticipantActor], pipeline: Pipeline, open_ends: Sequence[str]
) -> SceneFigures:
    """Compare all logs. `open_ends`: what was in transit when nothing changed any more."""
    scene = SceneFigures("sds", "Channels on a bad network", unreached=list(open_ends))
    people, channels = [], []
    latencies_ms: list[float] = []
    for channel in dict.fromkeys(actor.role.channel_id for actor in actors):
        members = [actor for actor in actors if actor.role.channel_id == channel]
        wanted = wanted_log({actor.role.participant_id: actor.transcript for actor in members})
        for actor in members:
            people.append(_participant(actor.role, actor.transcript, wanted))
            latencies_ms += actor.transcript.latencies_ms
        channels.append(_channel(members, wanted, pipeline))
    for row in people:
        name = row["name"]
        scene.add_problem(row["twice"], f"{name} received {row['twice']} messages twice")
        scene.add_problem(
            row["differing"], f"{name} holds {row['differing']} messages otherwise than their senders"
        )
        scene.add_problem(row["gave_up"], f"{name} gave up {row['gave_up']} messages")
    for row in channels:
        scene.add_problem(
            not row["logs_alike"] and not scene.unreached, f"the logs of {row['channel_id']} differ"
        )
        scene.add_problem(row["stored_twice"], f"the store has {row['stored_twice']} messages twice")
    title = f"The end of the channel {channels[0]['channel_id']}, in the order that everybody sees"
    chat = channels[0].pop("lines")[-_SHOWN_LINES:]
    scene.listings += [
        Listing("chat", title, {"": "line"}, [{"line": line} for line in chat]),
        Listing(
            "participants",
            "In the end: the logs, and seconds from sending to acknowledgement",
            PARTICIPANTS,
            people,
            words=3,
        ),
        Listing("channels", "The channels", CHANNELS, channels, words=3),
    ]
    mishaps = [actor.link.mishaps for actor in actors if actor.link is not None]
    passed, lost, doubled = (
        sum(getattr(link_mishaps, name) for link_mishaps in mishaps) for name in ("passed", "lost", "doubled")
    )
    scene.show("from sending to heard", in_ms(latencies_ms))
    scene.show("messages that crossed the bad network", passed + lost)
    scene.show("lost by it", lost)
    scene.show("doubled by it", doubled)
    return scene


def _participant(role: ParticipantRole, transcript: Transcript, wanted: Log) -> dict[str, Any]:
    rows = {row[1]: row for row in transcript.log()}
    return {
        "name": role.name,
        "kind": "hosted" if role.hosted else "full",
        "edge": EDGES[role.edge],
        "wanted": len(wanted),
        "held": len(rows),
        "lost": sum(row[1] not in rows for row in wanted),
        "twice": transcript.repeated,
        "differing": sum(rows.get(row[1], row) != row for row in wanted),
        "sent": len(transcript.sent_ms),
        "acknowledged": len(transcript.sent_ms.keys() & transcript.heard_ms.keys()),
        "gave_up": len(transcript.gave_up),
        "log_hash": log_hash(transcript.log()),
        "ephemeral": sum(transcript.ephemeral.values()),
        "ack_p50_ms": percentile(transcript.latencies_ms, 0.5),
        "ack_p99_ms": percentile(transcript.latencies_ms, 0.99),
    }


def _channel(members: Sequence[ParticipantActor], wanted: Log, pipeline: Pipeline) -> dict[str, Any]:
    """Describe a channel in the pipeline: the log of its events, and the store."""
    role = members[0].role
    channel = role.channel_id
    stored = pipeline.stored[channel]
    of_pipeline = log_hash(pipeline.transcripts[channel].log())
    full = [(actor.transcript, actor.link.mishaps) for actor in members if actor.link is not None]
    transcripts = [pipeline.transcripts[channel], *(transcript for transcript, _ in full)]
    broadcast_bytes = sum(mishaps.broadcast_bytes for _, mishaps in full)
    return {
        "channel_id": channel,
        "profile": role.profile,
        "messages": len(wanted),
        "log_hash": of_pipeline,
        "logs_alike": {of_pipeline, *(log_hash(actor.transcript.log()) for actor in members)}
        == {log_hash(wanted)},
        "stored": len(stored),
        "stored_twice": sum(count - 1 for count in stored.values()),
        "retries": sum(transcript.resent for transcript in transcripts),
        "repairs": sum(transcript.kinds["repair_answered"] for transcript in transcripts),
        "syncs": sum(transcript.kinds["sync_sent"] for transcript in transcripts),
        "broadcast_bytes": pipeline.broadcast_bytes[channel] + broadcast_bytes,
        "lines": [f"{sender}: {content.decode(errors='replace')}" for _, _, sender, content in wanted],
    }


def unmet(
    roles: Sequence[ParticipantRole], transcripts: Mapping[str, Mapping[str, Transcript]], pipeline: Pipeline
) -> list[str]:
    """Return what is still in transit, by name and number; empty when everything is settled."""
    problems: list[str] = []
    for channel in dict.fromkeys(role.channel_id for role in roles):
        wanted = wanted_log(transcripts[channel])
        ids = {row[1] for row in wanted}
        last = next(last_message(role, wanted) for role in roles if role.channel_id == channel)
        for name, transcript in (
            *transcripts[channel].items(),
            ("the pipeline", pipeline.transcripts[channel]),
        ):
            if missing := len(ids - transcript.messages.keys()):
                problems.append(f"{channel}/{name} lacks {missing} messages")
            if open_ends := len(unheard(transcript, last)):
                problems.append(f"{channel}/{name} does not know whether {open_ends} messages were heard")
        if missing := len(ids - pipeline.stored[channel].keys()):
            problems.append(f"the store lacks {missing} messages of {channel}")
    return problems
