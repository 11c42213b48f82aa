"""The job `blocks`, Kafka to Kafka, against a passthrough of the same records in the same Spark session."""

from __future__ import annotations

import os
import random
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.harness import Ratio, Settings, middle_pair, say
from bench.producing import flush
from bench.rig import Rig
from culm_infra.stack import find_java, jars
from culm_streaming.blocks.job import BlocksSettings
from culm_streaming.kafka_io.topics import kafka_sink, kafka_source
from culm_streaming.progress import BatchProgress, read_progress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.session import SessionSettings, start_session
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key

_GOAL = 0.4
_BATCHES = 3
_ENTRY_BYTES = 160
_OPERATION_BYTES = 110
_SCHEMAS = ("venues_0020" + "ab" * 32, "events_0020" + "cd" * 32)


def run(settings: Settings) -> list[Ratio]:
    """Available-now queries of three micro-batches, of which the first warms up and is not counted."""
    batch, logs, rounds = (10_000, 4_000, 1) if settings.quick else (250_000, 100_000, 3)
    cores = os.cpu_count() or 1
    with Rig() as rig:
        kafka, elsewhere = rig.topics("blocks."), rig.topics("elsewhere.")
        say("  making records of logs")
        _produce(kafka, batch * _BATCHES, logs)
        session = start_session(
            SessionSettings(
                jars=jars.ensure("spark"),
                master=f"local[{cores}]",
                java_home=find_java().home,
                log_file=rig.folder / "spark.log",
            )
        )
        kept, passed = [], []
        try:
            for number in range(rounds):
                checkpoints = str(rig.folder / "checkpoints" / str(number))
                passed.append(_passthrough(session, kafka, elsewhere, batch, f"{checkpoints}-copy"))
                kept.append(_blocks(session, kafka, batch, checkpoints))
                say(f"  blocks: {kept[-1]:,.0f} rows/s against {passed[-1]:,.0f}")
        finally:
            session.stop()
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
    """Records as the job `logs` writes them, about 350 bytes: many logs that grow by turns."""
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


def _blocks(session: SparkSession, kafka: KafkaSettings, batch: int, checkpoints: str) -> float:
    seen: list[BatchProgress] = []
    settings = RunSettings(
        kafka=kafka,
        checkpoints=checkpoints,
        jobs=("blocks",),
        job_settings={"blocks": BlocksSettings(max_offsets_per_trigger=batch)},
        once=True,
    )
    run_jobs(session, settings, stop=Event(), on_progress=seen.append)
    return _rate(seen)


def _passthrough(
    session: SparkSession, source: KafkaSettings, sink: KafkaSettings, batch: int, checkpoint: str
) -> float:
    records = kafka_source(session, source, ("logs",), max_offsets_per_trigger=batch).select(
        F.lit(sink.topic("logs")).alias("topic"), "key", "value"
    )
    query = kafka_sink(records, sink, checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return _rate([read_progress("copy", report) for report in query.recentProgress])


def _rate(seen: list[BatchProgress]) -> float:
    largest = max(one.rows_in for one in seen)
    # The first warms up; a last one may hold a few rows that rounding by partition left over.
    counted = [one for one in seen if 2 * one.rows_in > largest][1:]
    assert counted, "too few micro-batches to leave the first one out"
    return 1_000 * sum(one.rows_in for one in counted) / sum(one.duration_ms for one in counted)
