"""A job over what passes: a broker that stands still longer than clients wait, workers that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from culm_infra.demo.kit.processes import descendants
from culm_infra.patience import Patience
from culm_infra.stack import Stack
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import log_key
from tests.support.deployment.world import frozen
from tests.support.kafka.topic_io import produce_entries, read_logs, read_rejected
from tests.support.p2panda.logs import author, make_log

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak]

DEADLINE_SECONDS = 240.0
# A broker that does not answer is given up within seconds instead of a minute.
SHORT_TIMEOUTS = {
    "request.timeout.ms": "3000",
    "delivery.timeout.ms": "6000",
    "java.default.api.timeout.ms": "6000",
}
LOGS = [make_log(author("elsa"), log_id, 200) for log_id in range(5)]


@dataclass
class Job:
    """`culm job run logs`, and what it has logged."""

    process: subprocess.Popen[bytes]
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        lines = self.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def count(self, message: str, **fields: object) -> int:
        """How often a line with these fields was logged."""
        return sum(line["message"] == message and fields.items() <= line.items() for line in self.lines())

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait; the job must go on meanwhile."""
        patience = Patience(DEADLINE_SECONDS, lambda: self.log.stat().st_size)
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            patience.check(self.log.read_text)
            time.sleep(0.05)

    def until_written(self, kafka: KafkaSettings) -> None:
        """Wait for all entries on `logs`; each log has every entry once, in its order, for a reader."""
        expected = {log_key(*log[0].log): [checked.hash for checked in log] for log in LOGS}

        def found() -> dict[bytes, list[bytes]]:
            logs = read_logs(kafka, drop_repeats=True)
            return {key: [record.entry_hash for record in records] for key, records in logs.items()}

        self.until(lambda: found() == expected)
        assert read_rejected(kafka) == []

    def stop(self) -> None:
        """An orderly end."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(90) == 0, self.log.read_text()


@contextlib.contextmanager
def running_job(kafka: KafkaSettings, folder: Path) -> Iterator[Job]:
    """The job `logs`, in micro-batches of 50 records."""
    arguments = [
        *("job", "run", "logs", "--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix),
        *("--master", "local[2]", "--checkpoints", str(folder / "checkpoints"), "--max-offsets", "50"),
        *("--state-partitions", "1", "--shards", "1", "--log-format", "json", "--quick-start"),
        *(part for name, text in kafka.options.items() for part in ("--kafka-option", f"{name}={text}")),
    ]
    log = folder / "job.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "culm_infra", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=os.environ | {"CULM_STACK__DIRECTORY": str(folder / "stack")},
            start_new_session=True,
        )
    try:
        yield Job(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def test_a_broker_that_stands_still_is_waited_for_and_nothing_is_lost(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "broker")
    kafka = KafkaSettings(
        bootstrap=stack.up(quick_start=True), prefix="still.", partitions=1, options=SHORT_TIMEOUTS
    )
    try:
        admin.create(kafka)
        produce_entries(kafka, [log[index] for index in range(100) for log in LOGS])
        broker = stack.status().pid
        assert broker is not None
        with running_job(kafka, tmp_path) as job:
            job.until(lambda: job.count("micro-batch done") >= 2)
            with frozen(broker):
                job.until(lambda: job.count("job failed and starts again", kind="kafka") >= 2)
            produce_entries(kafka, [log[index] for index in range(100, 200) for log in LOGS])
            job.until_written(kafka)
            job.stop()
    finally:
        stack.down()


def test_killed_python_workers_and_their_daemons_are_replaced_and_nothing_is_lost(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    admin.create(kafka)
    produce_entries(kafka, [log[index] for index in range(100) for log in LOGS])
    with running_job(kafka, tmp_path) as job:
        job.until(lambda: job.count("micro-batch done") >= 2)
        produce_entries(kafka, [log[index] for index in range(100, 200) for log in LOGS])

        def killed_at_work() -> bool:
            for pid in python_of_spark(job.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return job.count("job failed and starts again", kind="worker") >= 1

        # One that is idle is replaced without a failure.
        job.until(killed_at_work)
        job.until_written(kafka)
        job.stop()


def python_of_spark(pid: int) -> list[int]:
    """Below a driver: Spark's Python workers, and the daemons from which they are forked."""
    return [child for child in descendants(pid) if b"-m\0culm_streaming.daemon\0" in command_line(child)]


def command_line(pid: int) -> bytes:
    """Empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
