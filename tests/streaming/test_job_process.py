"""`culm job run` as a process: killed in mid-batch, resumed, told to stop."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_infra.patience import Patience
from culm_models.lifts import ADD128, pack
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.block_lag import total_fingerprints
from culm_topics.logs.blocks import read_blocks
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key
from tests.support.kafka.topic_io import end_offsets, produce, produce_entries, read_logs, read_rejected
from tests.support.p2panda.logs import author, make_log
from tests.support.process.groups import killed_at_the_end
from tests.support.process.waiting import looks, output_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LOGS = [make_log(author("dora"), log_id, 60) for log_id in range(10)]
DEADLINE_SECONDS = 150.0


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(settings)
    return settings


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    with killed_at_the_end() as started:
        yield started


def start(kafka: KafkaSettings, path: Path, output: Path, *, job: str = "logs") -> subprocess.Popen[bytes]:
    arguments = [
        *("job", "run", job, "--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix),
        *("--master", "local[2]", "--checkpoints", str(path / "checkpoints"), "--max-offsets", "60"),
        *("--spark-option", "spark.sql.shuffle.partitions=2", "--log-format", "json", "--quick-start"),
        *(("--shards", "3") if job == "logs" else ()),  # `blocks` has none, and refuses the flag
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


def await_records(
    kafka: KafkaSettings,
    count: int,
    process: subprocess.Popen[bytes],
    output: Path,
    *,
    topic: str = "logs",
) -> None:
    written = 0
    patience = Patience(DEADLINE_SECONDS, lambda: (written, output.stat().st_size))
    while (written := sum(end_offsets(kafka, topic).values())) < count:
        assert process.poll() is None, output.read_text()
        patience.check(output.read_text)
        time.sleep(0.02)


@pytest.mark.soak  # tests/e2e/test_job_faults.py kills the jobs under live peers in every run
def test_a_job_killed_in_mid_batch_resumes_with_nothing_lost_or_repeated_for_a_reader(
    kafka: KafkaSettings, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    interleaved = [log[index] for index in range(60) for log in LOGS]
    produce_entries(kafka, interleaved)

    first = start(kafka, tmp_path, tmp_path / "first.log")
    processes.append(first)
    await_records(kafka, 130, first, tmp_path / "first.log")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(30)
    assert sum(end_offsets(kafka, "logs").values()) < len(interleaved)

    second = start(kafka, tmp_path, tmp_path / "second.log")
    processes.append(second)
    await_records(kafka, len(interleaved), second, tmp_path / "second.log")
    printed = output_of(tmp_path / "second.log")
    for _ in looks("sixty entries of each log", limit_s=DEADLINE_SECONDS, progress=printed):
        if all(len(log) == 60 for log in read_logs(kafka, drop_repeats=True).values()):
            break
    second.send_signal(signal.SIGTERM)
    assert second.wait(90) == 0, (tmp_path / "second.log").read_text()

    stored = read_logs(kafka, drop_repeats=True)
    for log in LOGS:
        records = stored[log_key(*log[0].log)]
        assert [record.entry_hash for record in records] == [checked.hash for checked in log]
    assert read_rejected(kafka) == []
    lines = (tmp_path / "second.log").read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert {"job started", "micro-batch done", "job stopped"} <= {line["message"] for line in logged}
    ours = [line for line in logged if line["logger"] == "culm_streaming.run"]
    assert {line["job"] for line in ours} == {"logs"}


@pytest.mark.soak
def test_a_blocks_job_killed_in_mid_batch_resumes_with_heights_and_sums_right(
    kafka: KafkaSettings, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    chance = random.Random(11)
    heights = {chance.randbytes(32): 4 for _ in range(60)}
    records = [
        (log_key(key, 0), LogRecord(seq_num, b"e", b"o", bytes(34), "schema_definition_v1").encode())
        for seq_num in range(1, 5)
        for key in heights
    ]
    produce(kafka, "logs", records)
    ends = end_offsets(kafka, "logs")

    first = start(kafka, tmp_path, tmp_path / "first.log", job="blocks")
    processes.append(first)
    await_records(kafka, 10, first, tmp_path / "first.log", topic="blocks")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(30)
    assert read_blocks(kafka).applied != ends

    second = start(kafka, tmp_path, tmp_path / "second.log", job="blocks")
    processes.append(second)
    log = tmp_path / "second.log"
    for _ in looks("blocks of all entries", limit_s=DEADLINE_SECONDS, progress=output_of(log)):
        if read_blocks(kafka).applied == ends:
            break
        assert second.poll() is None, log.read_text()
    second.send_signal(signal.SIGTERM)
    assert second.wait(90) == 0, (tmp_path / "second.log").read_text()

    blocks = read_blocks(kafka)
    assert not blocks.torn
    rows = [(key, 0, seq_num) for key, seq_num in sorted(heights.items())]
    assert b"".join(block.heights for block in blocks) == b"".join(map(pack, rows))
    assert total_fingerprints(blocks) == {"add128": ADD128.fingerprint(rows)[1:]}
    assert sum(block.entry_count for block in blocks) == len(records)
    assert read_rejected(kafka) == []
