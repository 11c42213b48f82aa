"""The job `sds`, Kafka to Kafka, against a passthrough of the same records; the size of its state."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.harness import BenchSettings, Ratio, middle_pair, say
from bench.job_queries import passthrough, spark_session, steady_rate, take_all
from bench.producing import flush, produce
from bench.rig import Rig
from culm_models.sds.channel import Channel
from culm_models.sds.settings import SdsSettings
from culm_streaming.progress import BatchProgress
from culm_streaming.sds.job import SdsJobSettings
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.sds.keys import shard_of
from culm_topics.sds.records import SdsCommandRecord, SdsInRecord
from culm_topics.topic_spec import DEFAULT_PARTITIONS

_GOAL = 0.25
_BATCHES = 3
_CONTENT_BYTES = 200
_START_MS = 1_700_000_000_000


def run(settings: BenchSettings) -> list[Ratio]:
    """Run available-now queries of three micro-batches; the first warms up and is not counted."""
    batch, rounds = (600, 1) if settings.quick else (8_000, 3)
    counts = (1, 50) if settings.quick else (1, 100, 10_000)
    with Rig() as rig, spark_session(rig) as session:
        ratios = [_throughput(rig, session, channels, batch, rounds) for channels in counts]
    return [*ratios, _state(settings)]


def _throughput(rig: Rig, session: SparkSession, channels: int, batch: int, rounds: int) -> Ratio:
    kafka, elsewhere = rig.topics(f"sds{channels}."), rig.topics(f"copy{channels}.")
    checkpoints = [str(rig.folder / "checkpoints" / f"{channels}-{number}") for number in range(rounds)]
    say(f"  making messages of {channels} channels")
    _join(kafka, channels)
    for checkpoint in checkpoints:
        _sds(session, kafka, batch, checkpoint)
    size_bytes = _produce(kafka, channels, batch * _BATCHES)
    kept, passed = [], []
    for checkpoint in checkpoints:
        passed.append(
            passthrough(session, kafka, elsewhere, {"sds.in": batch}, "sds.in", f"{checkpoint}-copy")
        )
        kept.append(steady_rate(_sds(session, kafka, batch, checkpoint)))
        say(f"  sds, {channels} channels: {kept[-1]:,.0f} messages/s against {passed[-1]:,.0f}")
    return Ratio(
        "sds-job",
        f"sds job, {channels} channels",
        *middle_pair(kept, passed),
        "messages/s",
        "Kafka to Kafka passthrough, same session",
        goal=_GOAL,
        details={
            "messages": batch * (_BATCHES - 1),
            "message_bytes": size_bytes,
            "cores": os.cpu_count(),
            "rounds": kept,
            "limit_rounds": passed,
        },
    )


def _join(kafka: KafkaSettings, channels: int) -> None:
    """Join a hosted participant in each channel before anything is measured."""
    client = producer(kafka, bulk=True)
    for number in range(channels):
        join = SdsCommandRecord("join", "spec", "alice", number.to_bytes(16, "big"))
        _put(client, kafka, "sds.commands", _channel_id(number), join.encode())
    flush(client)


def _produce(kafka: KafkaSettings, channels: int, count: int) -> int:
    """Produce messages of a remote participant of each channel. Returns their mean size in bytes."""
    client = producer(kafka, bulk=True)
    remote: dict[str, Channel] = {}
    total_bytes = 0
    for number in range(count):
        channel_id = _channel_id(number % channels)
        sender = remote.get(channel_id)
        if sender is None:
            sender = Channel(channel_id, "spec", SdsSettings(), now_ms=_START_MS, seed=channel_id.encode())
            sender.join("bob", _START_MS)
            remote[channel_id] = sender
        text = number.to_bytes(_CONTENT_BYTES, "big")
        (outbound,) = sender.send("bob", text, _START_MS + number).send
        value = SdsInRecord("spec", outbound.wire, bytes(32)).encode()
        total_bytes += len(value)
        _put(client, kafka, "sds.in", channel_id, value)
        if number // channels % 1_000 == 999:
            # Nobody acknowledges: its buffer of unacknowledged messages must not fill.
            sender.leave("bob", _START_MS + number)
            sender.join("bob", _START_MS + number)
    flush(client)
    return total_bytes // count


def _channel_id(number: int) -> str:
    return f"channel {number}"


def _put(client: Producer, kafka: KafkaSettings, name: str, channel_id: str, value: bytes) -> None:
    partition = shard_of(channel_id, kafka.partitions or DEFAULT_PARTITIONS)
    produce(client, kafka.topic(name), channel_id.encode(), value, partition)


def _sds(session: SparkSession, kafka: KafkaSettings, batch: int, checkpoints: str) -> list[BatchProgress]:
    """Process all present records."""
    return take_all(session, kafka, "sds", SdsJobSettings(max_offsets_per_trigger=batch), checkpoints)


def _state(settings: BenchSettings) -> Ratio:
    """Measure the state in a separate process, whose memory can then be measured."""
    sizes = ("2000", "50") if settings.quick else ("100000", "1000")
    done = subprocess.run(
        [sys.executable, "-m", "bench.sds_state", *sizes], check=True, capture_output=True, text=True
    )
    figures = json.loads(done.stdout)
    say(f"  state of a huge channel: {figures}")
    return Ratio(
        "sds-job",
        f"state of a channel of {figures['messages']:,} messages, {figures['participants']:,} hosted",
        figures["state_bytes_per_participant"],
        figures["bloom_bytes"],
        "bytes/participant",
        "one bloom filter",
        goal=1.0,
        higher_is_better=False,
        details=figures,
    )
