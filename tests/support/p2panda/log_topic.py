"""A `logs` topic of a test's own on the real broker, and records to put there."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable

from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer, LogEntry
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key

Step = tuple[str, int]
"""(author's name, sequence number): one record of log 0 of that author."""


# Two logs; a batch that was written twice, its repeats between and behind later records.
REPEATED: list[Step] = [
    ("a", 1),
    ("b", 1),
    ("a", 2),
    ("a", 1),
    ("b", 1),
    ("a", 2),
    ("a", 3),
    ("b", 2),
    ("b", 1),
    ("a", 3),
    ("a", 4),
    ("b", 2),
    ("b", 3),
]

ONCE: list[Step] = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 4), ("b", 3)]


def author_key(name: str) -> bytes:
    """A public key for a name; nothing here checks signatures."""
    return hashlib.sha256(name.encode()).digest()


def log_record(name: str, seq_num: int, schema_id: str = "one") -> tuple[bytes, bytes]:
    """Key and value of one record."""
    entry = f"{name}:{seq_num}".encode()
    record = LogRecord(seq_num, entry, b"operation", b"\x00\x20" + hashlib.sha256(entry).digest(), schema_id)
    return log_key(author_key(name), 0), record.encode()


def new_log_topic(bootstrap: str, *, partitions: int = 1) -> KafkaSettings:
    """Settings with a prefix of their own, whose `logs` topic exists."""
    settings = KafkaSettings(bootstrap=bootstrap, prefix=f"t{uuid.uuid4().hex[:10]}.", partitions=partitions)
    admin.create(settings, [spec("logs")])
    return settings


def new_sparse_topics(bootstrap: str, *, partitions: int = 1) -> KafkaSettings:
    """`new_log_topic` with `fragments` and `payloads` beside it."""
    settings = new_log_topic(bootstrap, partitions=partitions)
    admin.create(settings, [spec("fragments"), spec("payloads")])
    return settings


def write_steps(
    settings: KafkaSettings, steps: Iterable[Step], *, partition: int = -1, schema_id: str = "one"
) -> None:
    """Put records into the topic, in this order; returns when the broker has them."""
    client = kafka.producer(settings)
    for name, seq_num in steps:
        key, value = log_record(name, seq_num, schema_id)
        client.produce(settings.topic("logs"), value, key, partition)
    assert client.flush(30) == 0


def steps_of(entries: Iterable[LogEntry]) -> list[Step]:
    """What was handed out, as steps."""
    steps = []
    for entry in entries:
        name, _, seq_num = entry.entry_bytes.decode().partition(":")
        assert entry.public_key == author_key(name)
        assert entry.seq_num == int(seq_num)
        steps.append((name, entry.seq_num))
    return steps


def take(consumer: LogConsumer, count: int, *, timeout_seconds: float = 30.0) -> list[Step]:
    """The next `count` entries; fails when they do not come in time."""
    entries: list[LogEntry] = []
    while len(entries) < count:
        entry = consumer.poll(timeout_seconds)
        assert entry is not None, f"only {len(entries)} of {count} entries came"
        entries.append(entry)
    return steps_of(entries)


def everything(settings: KafkaSettings, **arguments: object) -> list[Step]:
    """What a consumer with these arguments hands out until the end."""
    with LogConsumer(settings, stop_at_end=True, **arguments) as consumer:  # type: ignore[arg-type]
        return steps_of(consumer)
