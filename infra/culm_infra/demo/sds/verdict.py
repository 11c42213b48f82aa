"""The verdict: every participant's log, the pipeline's and the store, compared message for message."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from culm_infra.demo.sds.book import Book
from culm_infra.demo.sds.plan import EDGES, Role, settings_of
from culm_infra.demo.sds.report import ChannelFigures, ParticipantFigures
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.whole_topic import read_to_end
from culm_topics.sds.events import SdsEventReader
from culm_topics.sds.records import SdsMessageRecord, SdsOutRecord, split_channel_key

Log = list[tuple[int, str, str, bytes]]
"""(Lamport timestamp, message id, sender id, content), in order."""


@dataclass(slots=True)
class Pipeline:
    """What the topics hold, by channel: the events, the store's ids, and the bytes that the job broadcast."""

    books: dict[str, Book]
    stored: dict[str, Counter[str]]
    said_bytes: Counter[str]


def gather(kafka: KafkaSettings, channels: Sequence[str]) -> Pipeline:
    """Read the topics as they are now; every event once, as any consumer would."""
    books = {channel: Book("") for channel in channels}
    with SdsEventReader(kafka, channels, follow=False, strict=True) as events:
        for found in events:
            event = found.event
            books[found.channel_id].record(
                event.kind,
                event.participant_id,
                event.message_id,
                event.time_ms,
                event.details,
                event.content,
            )
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
    """Tells logs apart: SHA-256 over ids, senders and contents in their order."""
    digest = hashlib.sha256()
    for lamport, message_id, sender, content in log:
        for field in (str(lamport).encode(), message_id.encode(), sender.encode(), content):
            digest.update(len(field).to_bytes(4, "big") + field)
    return digest.hexdigest()


def wanted_log(books: Mapping[str, Book]) -> Log:
    """The log that everybody in a channel must have: what each sent, as its sender has it."""
    rows = [row for book in books.values() for row in book.log() if row[1] in book.sent_ms]
    return sorted(rows, key=lambda row: (row[0], row[1].encode()))


def last_word(role: Role, wanted: Log) -> frozenset[str]:
    """The message of a channel that nobody can acknowledge: the last one, where there are no syncs."""
    has_syncs = settings_of(role.profile).sync_messages
    return frozenset() if has_syncs or not wanted else frozenset((wanted[-1][1],))


def unheard(book: Book, last: frozenset[str]) -> set[str]:
    """What a participant sent and does not know to have been heard, nor has given up."""
    return book.sent_ms.keys() - book.heard_ms.keys() - book.gave_up - last


def figures(role: Role, book: Book, wanted: Log) -> ParticipantFigures:
    """One participant against what it must have."""
    held = {row[1]: row for row in book.log()}
    return ParticipantFigures(
        name=role.name,
        kind="hosted" if role.hosted else "full",
        edge=EDGES[role.edge],
        wanted=len(wanted),
        held=len(held),
        lost=sum(row[1] not in held for row in wanted),
        twice=book.repeated,
        differing=sum(held.get(row[1], row) != row for row in wanted),
        sent=len(book.sent_ms),
        acknowledged=len(book.sent_ms.keys() & book.heard_ms.keys()),
        gave_up=len(book.gave_up),
        log_hash=log_hash(book.log()),
        ephemeral=sum(book.ephemeral.values()),
        latencies_ms=book.latencies_ms,
    )


def channel_figures(
    role: Role, wanted: Log, full: Sequence[Book], hashes: Sequence[str], pipeline: Pipeline, said_bytes: int
) -> ChannelFigures:
    """One channel: the books of its ``full`` participants, ``hashes`` of all participants' logs.

    ``said_bytes``: what its full participants broadcast.
    """
    channel = role.channel_id
    stored = pipeline.stored[channel]
    of_pipeline = log_hash(pipeline.books[channel].log())
    books = [pipeline.books[channel], *full]
    return ChannelFigures(
        channel_id=channel,
        profile=role.profile,
        messages=len(wanted),
        log_hash=of_pipeline,
        logs_alike={of_pipeline, *hashes} == {log_hash(wanted)},
        stored=len(stored),
        stored_twice=sum(count - 1 for count in stored.values()),
        retries=sum(book.resent for book in books),
        repairs=sum(book.kinds["repair_answered"] for book in books),
        syncs=sum(book.kinds["sync_sent"] for book in books),
        broadcast_bytes=pipeline.said_bytes[channel] + said_bytes,
        lines=[f"{sender}: {content.decode(errors='replace')}" for _, _, sender, content in wanted],
    )


def unmet(roles: Sequence[Role], books: Mapping[str, Mapping[str, Book]], pipeline: Pipeline) -> list[str]:
    """What is still on its way, by name and number; empty when all is at rest."""
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
