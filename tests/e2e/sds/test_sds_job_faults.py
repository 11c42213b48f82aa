"""`culm job run sds` killed in mid-batch and resumed: what it repeats is the same, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_infra.patience import Patience
from culm_models.sds.settings import SdsSettings
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.keys import shard_of
from culm_topics.sds.records import (
    SdsCommand,
    SdsCommandRecord,
    SdsEventRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOutRecord,
)
from tests.support.kafka.topic_io import end_offsets, read_all, read_rejected
from tests.support.process.groups import killed_at_the_end
from tests.support.process.waiting import looks, output_of
from tests.support.sds.shards import content, peer, token

# Minutes long; that a killed job loses and repeats nothing is also what `test_demo_sds` sees, each time.
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1_200)]

CHANNELS = [f"channel {number}" for number in range(8)]
ROUNDS = 30
PARTITIONS = 2
DEADLINE_SECONDS = 400.0
SMALL_FILTER = SdsSettings(bloom_capacity=100)


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS)
    admin.create(settings)
    return settings


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    with killed_at_the_end() as started:
        yield started


def start(kafka: KafkaSettings, path: Path, output: Path) -> subprocess.Popen[bytes]:
    arguments = [
        *("job", "run", "sds", "--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix),
        *("--master", "local[2]", "--checkpoints", str(path / "checkpoints"), "--sds-max-offsets", "60"),
        *("--spark-option", "spark.sql.shuffle.partitions=2", "--sds-interval-ms", "200"),
    ]
    environment = os.environ | {"CULM_STACK__DIRECTORY": str(path / "stack")}
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "culm_infra", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment,
            start_new_session=True,
        )


def write_inputs(kafka: KafkaSettings) -> set[bytes]:
    """Hosted and remote participants speak by turns, in every channel; the contents."""
    client = clients.producer(kafka)
    contents: set[bytes] = set()
    now_ms = int(time.time() * 1000)

    def put(name: str, channel_id: str, value: bytes) -> None:
        client.produce(
            kafka.topic(name), value, channel_id.encode(), partition=shard_of(channel_id, PARTITIONS)
        )

    tokens = 0

    def ask(channel_id: str, kind: SdsCommand, text: bytes | None = None) -> None:
        nonlocal tokens
        tokens += 1
        settings = {"bloom_capacity": 100, "resend_unacknowledged_ms": 2_000} if kind == "join" else {}
        record = SdsCommandRecord(kind, "spec", "alice", token(tokens), text, None, settings)
        for _ in range(1 + tokens % 2):  # a producer may write twice
            put("sds.commands", channel_id, record.encode())

    remote = {channel_id: peer("bob", channel_id, settings=SMALL_FILTER) for channel_id in CHANNELS}
    for channel_id in CHANNELS:
        ask(channel_id, "join")
    for number in range(ROUNDS):
        for channel_id in CHANNELS:
            for who in (b"bob", b"alice"):
                contents.add(b"%s %d in %s" % (who, number, channel_id.encode()))
            wire = content(
                remote[channel_id], b"bob %d in %s" % (number, channel_id.encode()), now_ms + number
            )
            put("sds.in", channel_id, SdsInRecord("spec", wire, bytes(32)).encode())
            ask(channel_id, "send", b"alice %d in %s" % (number, channel_id.encode()))
    assert client.flush(30) == 0
    return contents


def await_records(
    kafka: KafkaSettings, topic: str, count: int, process: subprocess.Popen[bytes], output: Path
) -> None:
    written = 0
    patience = Patience(DEADLINE_SECONDS, lambda: (written, output.stat().st_size))
    while (written := sum(end_offsets(kafka, topic).values())) < count:
        assert process.poll() is None, output.read_text()
        patience.check(output.read_text)
        time.sleep(0.1)


def test_a_job_killed_in_mid_batch_repeats_the_same_bytes_and_loses_no_delivery(
    kafka: KafkaSettings, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    contents = write_inputs(kafka)
    killed_at = (250, 700)
    for number, count in enumerate(killed_at):
        process = start(kafka, tmp_path, tmp_path / f"{number}.log")
        processes.append(process)
        await_records(kafka, "sds.events", count, process, tmp_path / f"{number}.log")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    last = start(kafka, tmp_path, tmp_path / "last.log")
    processes.append(last)
    printed = output_of(tmp_path / "last.log")
    for _ in looks("all contents", limit_s=DEADLINE_SECONDS, progress=printed, step_s=0.5):
        if len({record.content for record in told(kafka).values() if record.content}) == len(contents):
            break
        assert last.poll() is None, (tmp_path / "last.log").read_text()
    await_records(kafka, "sds.index", len(contents), last, tmp_path / "last.log")
    last.send_signal(signal.SIGTERM)
    assert last.wait(90) == 0, (tmp_path / "last.log").read_text()

    events = told(kafka)
    for channel_id in CHANNELS:
        numbers = sorted(number for channel, number in events if channel == channel_id)
        assert numbers == list(range(1, len(numbers) + 1))
    spoken = [
        event.content for event in events.values() if event.kind in ("sent", "delivered") and event.content
    ]
    assert sorted(spoken) == sorted(contents), "every content once"
    wires: dict[str, bytes] = {}
    for _, value in read_all(kafka, "sds.out"):
        out = SdsOutRecord.decode(value)
        assert wires.setdefault(out.message_id, out.wire) == out.wire
    stored: dict[str, SdsMessageRecord] = {}
    for _, value in read_all(kafka, "sds.messages"):
        message = SdsMessageRecord.decode(value)
        assert stored.setdefault(message.message_id, message) == message
    assert len(stored) == len(contents)
    assert read_rejected(kafka) == []


def told(kafka: KafkaSettings) -> dict[tuple[str, int], SdsEventRecord]:
    """The events by channel and number, each of which has one meaning however often it was written."""
    events: dict[tuple[str, int], SdsEventRecord] = {}
    last: dict[str, int] = {}
    for key, value in read_all(kafka, "sds.events"):
        assert key is not None
        channel_id, event = key.decode(), SdsEventRecord.decode(value)
        assert events.setdefault((channel_id, event.number), event) == event
        assert event.number <= last.get(channel_id, 0) + 1, "no reader sees a hole"
        last[channel_id] = max(event.number, last.get(channel_id, 0))
    return events
