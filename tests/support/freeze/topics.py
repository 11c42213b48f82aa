"""All topics of a deployment as a file, and back: each record at its place."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import cbor2
from confluent_kafka import KafkaException

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from tests.support.topic_io import read_records, write_records

Input = tuple[str, int, bytes | None, bytes | None]
"""Topic, partition, key, value."""

_DELETION_SECONDS = 60.0


def keep_topics(kafka: KafkaSettings, path: Path) -> None:
    """Write everything on the topics of the deployment into a file."""
    path.write_bytes(cbor2.dumps({topic.name: read_records(kafka, topic.name) for topic in CATALOGUE}))


def restore_topics(kafka: KafkaSettings, path: Path) -> None:
    """Make the topics anew, with the records of a file."""
    create_anew(kafka)
    for name, records in cbor2.loads(path.read_bytes()).items():
        write_records(kafka, name, records)


def create_anew(kafka: KafkaSettings) -> None:
    """The topics of the deployment, empty: a broker that is used again may have them of a former run."""
    client = clients.admin(kafka)
    if former := [state.full_name for state in admin.list_topics(kafka) if state.exists]:
        for future in client.delete_topics(former).values():
            future.result(30)
    deadline_s = time.monotonic() + _DELETION_SECONDS
    while any(state.exists for state in admin.list_topics(kafka)):
        assert time.monotonic() < deadline_s, "topics of a former run are still there"
    while True:
        try:
            admin.create(kafka)
            return
        except (KafkaException, KafkaFailure):
            assert time.monotonic() < deadline_s, "topics cannot be created"


def write(kafka: KafkaSettings, inputs: Iterable[Input]) -> None:
    """Write records in order, topic by topic."""
    topics: dict[str, list[tuple[int, bytes | None, bytes | None]]] = {}
    for name, partition, key, value in inputs:
        topics.setdefault(name, []).append((partition, key, value))
    for name, records in topics.items():
        write_records(kafka, name, records)
