"""The jobs `sds` and `sds-index` on real Spark and a real broker: what each topic then holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from culm_models.sds.channel import Channel
from culm_streaming.progress import BatchProgress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.sds.job import SdsJobSettings
from culm_streaming.sds.settings import ChannelsSettings
from culm_topics.catalogue.jobs import jobs_of
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.keys import AckKey, shard_of, split_ack_key
from culm_topics.sds.records import (
    SdsAckRecord,
    SdsChannelRecord,
    SdsCommand,
    SdsCommandRecord,
    SdsEventRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOutRecord,
)
from tests.support.kafka.topic_io import read_all, read_rejected
from tests.support.process.waiting import looks
from tests.support.sds.shards import content, peer, token

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PARTITIONS = 3
DEADLINE_SECONDS = 150.0


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS)
    admin.create(settings)
    return settings


def run_once(
    spark: SparkSession, kafka: KafkaSettings, path: Path, *jobs: str, max_offsets: int = 20_000
) -> list[BatchProgress]:
    seen: list[BatchProgress] = []
    settings = RunSettings(
        kafka=kafka,
        checkpoints=str(path),
        jobs=jobs or jobs_of("sds"),
        once=True,
        job_settings={
            "sds": SdsJobSettings(
                max_offsets_per_trigger=max_offsets,
                channels=ChannelsSettings(tail_bytes=300, chunk_bytes=1_000),
            )
        },
    )
    run_jobs(spark, settings, stop=Event(), on_progress=seen.append)
    return seen


class Producer:
    """Writes records of channels to the partition that they belong to."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client = clients.producer(settings)
        self._tokens = 0

    def put(self, name: str, channel_id: str, value: bytes) -> None:
        self.put_anywhere(name, channel_id.encode(), value, shard_of(channel_id, PARTITIONS))

    def put_anywhere(self, name: str, key: bytes | None, value: bytes, partition: int) -> None:
        self._client.produce(self._settings.topic(name), value, key, partition=partition)

    def ask(
        self,
        channel_id: str,
        kind: SdsCommand,
        participant_id: str,
        text: bytes | None = None,
        settings: dict[str, int] | None = None,
    ) -> None:
        self._tokens += 1
        record = SdsCommandRecord(
            *(kind, "spec", participant_id, token(self._tokens), text), settings=settings or {}
        )
        self.put("sds.commands", channel_id, record.encode())

    def hear(self, channel_id: str, wire: bytes) -> None:
        self.put("sds.in", channel_id, SdsInRecord("spec", wire, bytes(32)).encode())

    def flush(self) -> None:
        assert self._client.flush(30) == 0


def events(kafka: KafkaSettings) -> dict[str, list[SdsEventRecord]]:
    """What happened in each channel, as its numbers say."""
    by_channel: dict[str, dict[int, SdsEventRecord]] = {}
    for key, value in read_all(kafka, "sds.events"):
        assert key is not None
        event = SdsEventRecord.decode(value)
        former = by_channel.setdefault(key.decode(), {}).setdefault(event.number, event)
        assert former == event, "a number stands for one event"
    return {
        channel_id: [numbered[number] for number in sorted(numbered)]
        for channel_id, numbered in by_channel.items()
    }


def acks(kafka: KafkaSettings) -> dict[AckKey, bytes]:
    rows: dict[AckKey, bytes] = {}
    for key, value in read_all(kafka, "sds.acks"):
        if value is None:
            rows.pop(split_ack_key(key), None)
        else:
            rows[split_ack_key(key)] = value
    return rows


def test_hosted_and_remote_participants_talk_and_every_topic_tells_its_part(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    producer = Producer(kafka)
    channels = [f"channel {number}" for number in range(6)]
    peers: dict[str, Channel] = {}
    for channel_id in channels:
        producer.ask(channel_id, "join", "alice")
        producer.ask(channel_id, "send", "alice", b"one")
        peers[channel_id] = peer("bob", channel_id)
    producer.flush()
    run_once(spark, kafka, tmp_path)
    outs = [(key, SdsOutRecord.decode(value)) for key, value in read_all(kafka, "sds.out")]
    assert sorted(key.decode() for key, _ in outs if key is not None) == channels
    now_ms = int(time.time() * 1000)
    for key, out in outs:
        assert key is not None
        peers[key.decode()].receive(out.wire, now_ms)
    for channel_id in channels:
        for text in (b"two", b"three"):
            producer.hear(channel_id, content(peers[channel_id], text, now_ms))
    producer.put("sds.in", channels[0], b"no record")
    producer.hear(channels[0], b"junk")
    producer.flush()
    seen = run_once(spark, kafka, tmp_path, max_offsets=7)
    assert sum(progress.rows_in for progress in seen if progress.job == "sds") == 14

    channel_events = events(kafka)
    for channel_id in channels:
        assert [event.number for event in channel_events[channel_id]] == list(
            range(1, len(channel_events[channel_id]) + 1)
        )
        texts = [event.content for event in channel_events[channel_id] if event.kind in ("sent", "delivered")]
        assert texts == [b"one", b"two", b"three"]
    rows = acks(kafka)
    for channel_id in channels:
        summary = SdsChannelRecord.decode(rows[AckKey(channel_id)])
        assert (summary.log, summary.waiting, summary.outgoing, summary.participants) == (3, 0, 0, 1)
        assert summary.event_number == len(channel_events[channel_id])
        (message,) = [row for key, row in rows.items() if key.channel_id == channel_id and key.message_id]
        assert SdsAckRecord.decode(message).state == "acknowledged"
    stored = [SdsMessageRecord.decode(value) for _, value in read_all(kafka, "sds.messages")]
    assert len(stored) == len({(message.message_id) for message in stored}) == 18
    run_once(spark, kafka, tmp_path, "sds-index")
    assert len(read_all(kafka, "sds.index")) == 18
    assert {refused.code for refused in read_rejected(kafka)} == {"topics.record", "sds.message.truncated"}


def test_a_record_in_another_partition_is_taken_and_one_without_a_channel_refused(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    producer = Producer(kafka)
    producer.ask("c", "join", "alice")
    producer.flush()
    wire = content(peer("bob"), b"misplaced", int(time.time() * 1000))
    record = SdsInRecord("spec", wire, bytes(32)).encode()
    home = shard_of("c", PARTITIONS)
    producer.put_anywhere("sds.in", b"c", record, (home + 1) % PARTITIONS)
    for key in (None, b"\xff"):
        producer.put_anywhere("sds.in", key, record, home)
    producer.flush()
    run_once(spark, kafka, tmp_path)

    assert [event.content for event in events(kafka)["c"] if event.kind == "delivered"] == [b"misplaced"]
    assert [refused.code for refused in read_rejected(kafka)] == ["topics.record"] * 2


def await_true(condition: Callable[[], bool], what: str, thread: Thread) -> None:
    for _ in looks(what, limit_s=DEADLINE_SECONDS):
        if condition():
            break
        assert thread.is_alive(), f"the job has ended before {what}"


def test_timers_expire_without_any_record(spark: SparkSession, kafka: KafkaSettings, tmp_path: Path) -> None:
    stop = Event()
    settings = RunSettings(
        kafka=kafka,
        checkpoints=str(tmp_path),
        jobs=("sds",),
        job_settings={"sds": SdsJobSettings(interval_ms=200, channels=ChannelsSettings(wake_ms=100))},
    )
    thread = Thread(target=run_jobs, args=(spark, settings), kwargs={"stop": stop}, daemon=True)
    thread.start()
    try:
        producer = Producer(kafka)
        settings_asked = {"resend_unacknowledged_ms": 500, "resend_max_ms": 500, "resend_attempts": 2}
        producer.ask("c", "join", "alice", settings=settings_asked)
        producer.ask("c", "send", "alice", b"is anybody here?")
        producer.flush()

        def gave_up() -> bool:
            try:
                return any(event.kind == "gave_up" for event in events(kafka).get("c", []))
            except KafkaException:  # the topics are as new as this test
                return False

        await_true(gave_up, "a message without an answer was given up", thread)
    finally:
        stop.set()
        thread.join(60)
    wires = [SdsOutRecord.decode(value) for _, value in read_all(kafka, "sds.out")]
    assert [(out.kind) for out in wires if out.kind != "sync"] == ["new", "retry", "retry"]
    assert len({out.wire for out in wires if out.kind != "sync"}) == 1
