"""Records of SDS channels on the real broker: written where the job and the connectors would write them."""

from __future__ import annotations

from collections.abc import Iterable

from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.keys import channel_key, index_key, shard_of
from culm_topics.sds.records import SdsEventRecord, SdsIndexRecord, SdsMessageRecord, check_of

PARTITIONS = 3
_TIMEOUT_SECONDS = 30.0


def sds_settings(bootstrap: str, prefix: str, *names: str) -> KafkaSettings:
    """Settings of a deployment of which only these topics have been created."""
    settings = KafkaSettings(bootstrap=bootstrap, prefix=prefix, partitions=PARTITIONS)
    admin.create(settings, [spec(name) for name in names])
    return settings


def write(
    settings: KafkaSettings, name: str, records: Iterable[tuple[str, bytes, bytes | None]]
) -> list[int]:
    """Write (channel id, key, value) in order, each into its channel's partition; returns their offsets."""
    client = kafka.producer(settings, bulk=True)
    offsets: list[int] = []

    def delivered(error: object, message: object) -> None:
        assert error is None, error
        offsets.append(message.offset())  # type: ignore[attr-defined]

    for channel_id, key, value in records:
        client.produce(
            settings.topic(name),
            value,
            key,
            partition=shard_of(channel_id, PARTITIONS),
            on_delivery=delivered,
        )
        client.poll(0)
    assert client.flush(_TIMEOUT_SECONDS) == 0
    return offsets


def store(
    settings: KafkaSettings, channel_id: str, messages: Iterable[SdsMessageRecord]
) -> list[tuple[str, SdsIndexRecord]]:
    """Write messages of one channel into the store; returns the rows of the index that belong to them."""
    stored = list(messages)
    offsets = write(
        settings,
        "sds.messages",
        [(channel_id, channel_key(channel_id), message.encode()) for message in stored],
    )
    return [
        (
            message.message_id,
            SdsIndexRecord(
                shard_of(channel_id, PARTITIONS),
                offset,
                message.lamport_timestamp,
                message.sender_id,
                len(message.wire),
                check_of(message.wire),
                message.retrieval_hint,
            ),
        )
        for message, offset in zip(stored, offsets, strict=True)
    ]


def write_index(
    settings: KafkaSettings, channel_id: str, rows: Iterable[tuple[str, SdsIndexRecord | None]]
) -> None:
    """Write rows of the index; None is a tombstone."""
    write(
        settings,
        "sds.index",
        [
            (channel_id, index_key(channel_id, message_id), None if row is None else row.encode())
            for message_id, row in rows
        ],
    )


def write_events(settings: KafkaSettings, channel_id: str, events: Iterable[SdsEventRecord]) -> None:
    """Write events of one channel, in the order given."""
    write(settings, "sds.events", [(channel_id, channel_key(channel_id), event.encode()) for event in events])


def message_of(message_id: str, lamport: int, wire: bytes | None = None) -> SdsMessageRecord:
    """A message as the job stores it; its bytes are not those of the protocol."""
    return SdsMessageRecord("spec", message_id, "ann", lamport, wire or f"wire of {message_id}".encode())


def index_row(offset: int, lamport: int, sender_id: str = "ann") -> SdsIndexRecord:
    """A row that points anywhere."""
    return SdsIndexRecord(0, offset, lamport, sender_id, 10, b"abcd")
