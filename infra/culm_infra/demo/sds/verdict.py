"""The verdict: the logs of participants, pipeline and store, compared message by message."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from culm_infra.columns import Columns, of
from culm_infra.demo.kit.report import Listing, SceneFigures, in_ms, percentile
from culm_infra.demo.sds.cast import Actor, Book
from culm_infra.demo.sds.plan import EDGES, Role, settings_of
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

    books: dict[str, Book]
    stored: dict[str, Counter[str]]
    said_bytes: Counter[str]


def gather(kafka: KafkaSettings, channels: Sequence[str]) -> Pipeline:
    """Read the topics in their present state; every event once, as any consumer would."""
    books = {channel: Book("") for channel in channels}
    with SdsEventReader(kafka, channels, follow=False, strict=True) as events:
        for found in events:
            books[found.channel_id].record(found.event)
    stored: dict[str, Counter[str]] = {channel: Counter() for channel in channels}
    for message in read_to_end(kafka, "sds.messages"):
        channel = split_channel_key(message.key)
        if channel in stored:
            stored[channel][SdsMessageRecord.decode(message.value).message_id] += 1
    said_bytes: Counter[str] = Counter()
    for message in read_to_end(kafka, "sds.out"):
        said_bytes[split_channel_key(message.key)] += len(SdsOutRecord.decode(message.value).wire)
    return Pipeline(books, stored, said_bytes)


def log_hash(log: Log) -> str:
    """Return the SHA-256 over ids, senders and contents in their order, which identifies a log."""
    digest = hashlib.sha256()
    for lamport, message_id, sender, content in log:
        for field in (str(lamport).encode(), message_id.encode(), sender.encode(), content):
            digest.update(len(field).to_bytes(4, "big") + field)
    return digest.hexdigest()


def wanted_log(books: Mapping[str, Book]) -> Log:
    """Return the log that every participant must have: all messages, as their senders have them."""
    rows = [row for book in books.values() for row in book.log() if row[1] in book.sent_ms]
    return sorted(rows, key=lambda row: (row[0], row[1].encode()))


def last_word(role: Role, wanted: Log) -> frozenset[str]:
    """Return the id of the last message in a channel without syncs, which nobody can acknowledge."""
    has_syncs = settings_of(role.profile).sync_messages
    return frozenset() if has_syncs or not wanted else frozenset((wanted[-1][1],))


def unheard(book: Book, last: frozenset[str]) -> set[str]:
    """Return the sent messages that are neither acknowledged nor given up."""
    return book.sent_ms.keys() - book.heard_ms.keys() - book.gave_up - last


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


def judge(actors: Sequence[Actor], pipeline: Pipeline, open_ends: Sequence[str]) -> SceneFigures:
    """Compare all logs. `open_ends`: what was in transit when nothing changed any more."""
    scene = SceneFigures("sds", "Channels on a bad network", unreached=list(open_ends))
    people, channels = [], []
    latencies_ms: list[float] = []
    for channel in dict.fromkeys(actor.role.channel_id for actor in actors):
        members = [actor for actor in actors if actor.role.channel_id == channel]
        wanted = wanted_log({actor.role.participant_id: actor.book for actor in members})
        for actor in members:
            people.append(_participant(actor.role, actor.book, wanted))
            latencies_ms += actor.book.latencies_ms
        channels.append(_channel(members, wanted, pipeline))
    for one in people:
        name = one["name"]
        scene.wrong(one["twice"], f"{name} received {one['twice']} messages twice")
        scene.wrong(
            one["differing"], f"{name} holds {one['differing']} messages otherwise than their senders"
        )
        scene.wrong(one["gave_up"], f"{name} gave up {one['gave_up']} messages")
    for row in channels:
        scene.wrong(not row["logs_alike"] and not scene.unreached, f"the logs of {row['channel_id']} differ")
        scene.wrong(row["stored_twice"], f"the store has {row['stored_twice']} messages twice")
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
        sum(getattr(one, name) for one in mishaps) for name in ("passed", "lost", "doubled")
    )
    scene.show("from sending to heard", in_ms(latencies_ms))
    scene.show("messages that crossed the bad network", passed + lost)
    scene.show("lost by it", lost)
    scene.show("doubled by it", doubled)
    return scene


def _participant(role: Role, book: Book, wanted: Log) -> dict[str, Any]:
    held = {row[1]: row for row in book.log()}
    return {
        "name": role.name,
        "kind": "hosted" if role.hosted else "full",
        "edge": EDGES[role.edge],
        "wanted": len(wanted),
        "held": len(held),
        "lost": sum(row[1] not in held for row in wanted),
        "twice": book.repeated,
        "differing": sum(held.get(row[1], row) != row for row in wanted),
        "sent": len(book.sent_ms),
        "acknowledged": len(book.sent_ms.keys() & book.heard_ms.keys()),
        "gave_up": len(book.gave_up),
        "log_hash": log_hash(book.log()),
        "ephemeral": sum(book.ephemeral.values()),
        "ack_p50_ms": percentile(book.latencies_ms, 0.5),
        "ack_p99_ms": percentile(book.latencies_ms, 0.99),
    }


def _channel(members: Sequence[Actor], wanted: Log, pipeline: Pipeline) -> dict[str, Any]:
    """Describe a channel in the pipeline: the log of its events, and the store."""
    role = members[0].role
    channel = role.channel_id
    stored = pipeline.stored[channel]
    of_pipeline = log_hash(pipeline.books[channel].log())
    full = [(actor.book, actor.link.mishaps) for actor in members if actor.link is not None]
    books = [pipeline.books[channel], *(book for book, _ in full)]
    said_bytes = sum(mishaps.said_bytes for _, mishaps in full)
    return {
        "channel_id": channel,
        "profile": role.profile,
        "messages": len(wanted),
        "log_hash": of_pipeline,
        "logs_alike": {of_pipeline, *(log_hash(one.book.log()) for one in members)} == {log_hash(wanted)},
        "stored": len(stored),
        "stored_twice": sum(count - 1 for count in stored.values()),
        "retries": sum(book.resent for book in books),
        "repairs": sum(book.kinds["repair_answered"] for book in books),
        "syncs": sum(book.kinds["sync_sent"] for book in books),
        "broadcast_bytes": pipeline.said_bytes[channel] + said_bytes,
        "lines": [f"{sender}: {content.decode(errors='replace')}" for _, _, sender, content in wanted],
    }


def unmet(roles: Sequence[Role], books: Mapping[str, Mapping[str, Book]], pipeline: Pipeline) -> list[str]:
    """Return what is still in transit, by name and number; empty when everything is settled."""
    found: list[str] = []
    for channel in dict.fromkeys(role.channel_id for role in roles):
        wanted = wanted_log(books[channel])
        ids = {row[1] for row in wanted}
        last = next(last_word(role, wanted) for role in roles if role.channel_id == channel)
        for name, book in (*books[channel].items(), ("the pipeline", pipeline.books[channel])):
            if lacking := len(ids - book.held.keys()):
                found.append(f"{channel}/{name} lacks {lacking} messages")
            if open_ends := len(unheard(book, last)):
                found.append(f"{channel}/{name} does not know whether {open_ends} messages were heard")
        if lacking := len(ids - pipeline.stored[channel].keys()):
            found.append(f"the store lacks {lacking} messages of {channel}")
    return found
