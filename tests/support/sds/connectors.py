"""Connectors that serve SDS over a real Kafka, and records of channels as the jobs write them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator
from pathlib import Path

from confluent_kafka import Producer

from culm_connectors.connector import Connector
from culm_models.sds.wire.codec import decode
from culm_topics.kafka import clients as kafka_clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.keys import channel_key, index_key, owner_key, shard_of
from culm_topics.sds.records import SdsIndexRecord, SdsMessageRecord, SdsOwnerRecord, check_of
from tests.support.connectors.edge import connector, running
from tests.support.connectors.quic import identity
from tests.support.sds.edge import Remote, remote

TOKEN = bytes(range(16))
QUICK = {"tick_interval_s": 0.05, "head_idle_s": 0.2, "job_fetch_spread_s": 0.0}


@functools.lru_cache(maxsize=1)
def producer(bootstrap: str) -> Producer:
    """One for all records on a broker: a new one takes longer than the record that it writes."""
    return kafka_clients.producer(KafkaSettings(bootstrap=bootstrap))


def produce(
    settings: KafkaSettings, name: str, channel_id: str, *values: bytes, key: bytes | None = None
) -> int:
    """Write records of a channel as the job would; returns the offset of the last."""
    offsets: list[int | None] = []
    client = producer(settings.bootstrap)
    for value in values:
        client.produce(
            settings.topic(name),
            value,
            key or channel_key(channel_id),
            partition=_partition(settings, channel_id),
            on_delivery=lambda _, record: offsets.append(record.offset()),
        )
    assert client.flush(30) == 0
    assert offsets[-1] is not None
    return offsets[-1]


def _partition(settings: KafkaSettings, channel_id: str) -> int:
    assert settings.partitions is not None
    return shard_of(channel_id, settings.partitions)


def own(settings: KafkaSettings, **owners: int) -> None:
    """Say as the job would whose hosted ids of the channel are: the numbers of their keys."""
    for participant_id, number in owners.items():
        row = SdsOwnerRecord("hosted", "spec", identity(number).peer_id, 1)
        produce(settings, "sds.owners", "room", row.encode(), key=owner_key("room", participant_id))


def store(settings: KafkaSettings, channel_id: str, wire: bytes, *, index: bool = True) -> None:
    """Have a message stored, and indexed, as the two jobs do."""
    message = decode(wire, "spec")
    assert message.lamport_timestamp is not None
    record = SdsMessageRecord("spec", message.message_id, message.sender_id, message.lamport_timestamp, wire)
    offset = produce(settings, "sds.messages", channel_id, record.encode())
    if index:
        row = SdsIndexRecord(
            _partition(settings, channel_id),
            offset,
            message.lamport_timestamp,
            message.sender_id,
            len(wire),
            check_of(wire),
        )
        produce(
            settings, "sds.index", channel_id, row.encode(), key=index_key(channel_id, message.message_id)
        )


@contextlib.asynccontextmanager
async def two(folder: Path, settings: KafkaSettings) -> AsyncIterator[tuple[Connector, Connector]]:
    async with (
        running(connector(folder / "one", settings, sds=QUICK)) as first,
        running(connector(folder / "two", settings, sds=QUICK)) as other,
    ):
        yield first, other


def at(which: Connector, number: int) -> contextlib.AbstractAsyncContextManager[Remote]:
    assert which.address is not None
    return remote(which.address, number)
