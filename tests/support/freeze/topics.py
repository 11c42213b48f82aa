"""All topics of a deployment as a file, and back: each record at its place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import cbor2
from confluent_kafka import KafkaException

from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import read_records, write_records
from tests.support.process.waiting import looks

Input = tuple[str, int, bytes | None, bytes | None]
"""Topic, partition, key, value."""


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
    for _ in looks("the end of the topics of a former run"):
        if not any(state.exists for state in admin.list_topics(kafka)):
            break
    for _ in looks("topics that can be created"):
        with contextlib.suppress(KafkaException, KafkaFailure):
            admin.create(kafka)
            return


def write(kafka: KafkaSettings, inputs: Iterable[Input]) -> None:
    """Write records in order, topic by topic."""
    topics: dict[str, list[tuple[int, bytes | None, bytes | None]]] = {}
    for name, partition, key, value in inputs:
        topics.setdefault(name, []).append((partition, key, value))
    for name, records in topics.items():
        write_records(kafka, name, records)
