"""The job `blocks`, Kafka to Kafka, against a passthrough of the same records in the same Spark session."""

from __future__ import annotations

import os
import random

from bench.harness import BenchSettings, Ratio, middle_pair, say
from bench.job_queries import passthrough, spark_session, steady_rate, take_all
from bench.producing import flush
from bench.rig import Rig
from culm_streaming.blocks.job import BlocksSettings
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key

_GOAL = 0.4
_BATCHES = 3
_ENTRY_BYTES = 160
_OPERATION_BYTES = 110
_SCHEMAS = ("venues_0020" + "ab" * 32, "events_0020" + "cd" * 32)


def run(settings: BenchSettings) -> list[Ratio]:
    """Run available-now queries of three micro-batches; the first warms up and is not counted."""
    batch, logs, rounds = (10_000, 4_000, 1) if settings.quick else (250_000, 100_000, 3)
    cores = os.cpu_count() or 1
    with Rig() as rig:
        kafka, elsewhere = rig.topics("blocks."), rig.topics("elsewhere.")
        say("  making records of logs")
        _produce(kafka, batch * _BATCHES, logs)
        kept, passed = [], []
        with spark_session(rig) as session:
            for number in range(rounds):
                checkpoints = str(rig.folder / "checkpoints" / str(number))
                passed.append(
                    passthrough(session, kafka, elsewhere, {"logs": batch}, "logs", f"{checkpoints}-copy")
                )
                job_settings = BlocksSettings(max_offsets_per_trigger=batch)
                kept.append(steady_rate(take_all(session, kafka, "blocks", job_settings, checkpoints)))
                say(f"  blocks: {kept[-1]:,.0f} rows/s against {passed[-1]:,.0f}")
    return [
        Ratio(
            "blocks",
            "blocks job",
            *middle_pair(kept, passed),
            "rows/s",
            "Kafka to Kafka passthrough, same session",
            goal=_GOAL,
            details={
                "rows": batch * (_BATCHES - 1),
                "logs": logs,
                "block_bits": BlocksSettings().heights.block_bits,
                "cores": cores,
                "rounds": kept,
                "limit_rounds": passed,
            },
        )
    ]


def _produce(kafka: KafkaSettings, count: int, logs: int) -> None:
    """Produce records as the job `logs` writes them, about 350 bytes, for many logs in random order."""
    source = random.Random(1)
    keys = [log_key(source.randbytes(32), 0) for _ in range(logs)]
    heights = [0] * logs
    entry, operation = source.randbytes(_ENTRY_BYTES), source.randbytes(_OPERATION_BYTES)
    client, topic = producer(kafka, bulk=True), kafka.topic("logs")
    for _ in range(count):
        log = source.randrange(logs)
        heights[log] += 1
        value = LogRecord(heights[log], entry, operation, bytes(34), _SCHEMAS[log % len(_SCHEMAS)])
        client.produce(topic, value.encode(), keys[log])
        client.poll(0)
    flush(client)
