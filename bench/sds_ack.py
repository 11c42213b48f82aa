"""From a hosted participant's `send` to its acknowledgement by a remote peer, through the job `sds` twice."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.harness import BenchSettings, Ratio, say
from bench.job_queries import spark_session
from bench.rig import Rig
from culm_models.sds.channel import Channel
from culm_models.sds.settings import SdsSettings
from culm_streaming.kafka_io.topics import kafka_sink, kafka_source
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.sds.job import SdsJobSettings
from culm_topics.kafka.clients import KafkaSettings, consumer, producer
from culm_topics.sds.records import SdsCommandRecord, SdsEventRecord, SdsInRecord, SdsOutRecord

_CHANNEL = "latency"
_TIMEOUT_S = 120.0
_PAUSE_S = 0.137
_WARM = 3


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure one message at a time, with micro-batches as often as possible and at the default interval."""
    count = 5 if settings.quick else 30
    ratios = []
    with Rig() as rig, spark_session(rig) as session:
        for interval_ms in (100, SdsJobSettings().interval_ms):
            bare = _copied(rig, session, interval_ms, count)
            ours = _acknowledged(rig, session, interval_ms, count)
            details: dict[str, object] = {"samples": len(ours), "interval_ms": interval_ms}
            details |= {"ours_ms": _percentiles(ours), "bare_ms": _percentiles(bare)}
            say(f"  acknowledged after {details['ours_ms']} ms, copied after {details['bare_ms']} ms")
            ratios.append(
                Ratio(
                    "sds-ack",
                    f"sds acknowledgement p50, micro-batches each {interval_ms} ms",
                    1e3 * statistics.median(ours),
                    2e3 * statistics.median(bare),
                    "ms",
                    "two passes of Kafka to Kafka passthrough",
                    goal=None,
                    higher_is_better=False,
                    details=details,
                )
            )
    return ratios


def _percentiles(seconds: list[float]) -> dict[str, int]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": round(1e3 * cuts[49]), "p99": round(1e3 * cuts[98]), "max": round(1e3 * max(seconds))}


def _acknowledged(rig: Rig, session: SparkSession, interval_ms: int, count: int) -> list[float]:
    kafka = rig.topics(f"ack{interval_ms}.", partitions=1)
    stop = threading.Event()
    settings = RunSettings(
        kafka=kafka,
        checkpoints=str(rig.folder / "checkpoints" / f"ack{interval_ms}"),
        jobs=("sds",),
        job_settings={"sds": SdsJobSettings(interval_ms=interval_ms)},
    )
    job = threading.Thread(target=run_jobs, args=(session, settings), kwargs={"stop": stop})
    job.start()
    seconds: list[float] = []
    try:
        client = producer(kafka)
        outs, events = _tail(kafka, "sds.out"), _tail(kafka, "sds.events")
        remote = Channel(_CHANNEL, "spec", SdsSettings(), now_ms=int(time.time() * 1000), seed=b"remote")
        remote.join("bob", int(time.time() * 1000))

        def ask(number: int, record: SdsCommandRecord) -> None:
            client.produce(kafka.topic("sds.commands"), record.encode(), _CHANNEL.encode(), partition=0)
            client.poll(0)

        ask(0, SdsCommandRecord("join", "spec", "alice", bytes(16)))
        for number in range(1, count + _WARM + 1):
            begun = time.perf_counter()
            token = number.to_bytes(16, "big")
            ask(number, SdsCommandRecord("send", "spec", "alice", token, b"%d" % number))
            while (out := SdsOutRecord.decode(next(outs))).kind != "new":
                pass
            now_ms = int(time.time() * 1000)
            remote.receive(out.wire, now_ms)
            (answer,) = remote.send("bob", b"heard %d" % number, now_ms).send
            value = SdsInRecord("spec", answer.wire, bytes(32)).encode()
            client.produce(kafka.topic("sds.in"), value, _CHANNEL.encode(), partition=0)
            client.poll(0)
            while (event := SdsEventRecord.decode(next(events))).kind != "acknowledged":
                pass
            assert event.message_id == out.message_id
            if number > _WARM:
                seconds.append(time.perf_counter() - begun)
            # A pause that is not in step with the micro-batches.
            time.sleep(_PAUSE_S)
    finally:
        stop.set()
        job.join()
    return seconds


def _copied(rig: Rig, session: SparkSession, interval_ms: int, count: int) -> list[float]:
    """Send the same number of records through a query that changes nothing."""
    kafka = rig.topics(f"bare{interval_ms}.", partitions=1)
    records = kafka_source(session, kafka, ("sds.in",), max_offsets_per_trigger=1_000).select(
        F.lit(kafka.topic("sds.out")).alias("topic"), "key", "value"
    )
    checkpoint = str(rig.folder / "checkpoints" / f"bare{interval_ms}")
    query = (
        kafka_sink(records, kafka, checkpoint).trigger(processingTime=f"{interval_ms} milliseconds").start()
    )
    seconds: list[float] = []
    try:
        client, copies = producer(kafka), _tail(kafka, "sds.out")
        for number in range(count + _WARM):
            begun = time.perf_counter()
            client.produce(kafka.topic("sds.in"), os.urandom(19_000), b"key", partition=0)
            client.poll(0)
            next(copies)
            if number >= _WARM:
                seconds.append(time.perf_counter() - begun)
            time.sleep(_PAUSE_S)
    finally:
        query.stop()
    return seconds


def _tail(kafka: KafkaSettings, name: str) -> Iterator[bytes]:
    """Yield the values of a topic's only partition."""
    client = consumer(kafka, group_id="bench", start="earliest", defaults={"fetch.wait.max.ms": "10"})
    client.assign([TopicPartition(kafka.topic(name), 0, 0)])
    return _values(client)


def _values(client: Consumer) -> Iterator[bytes]:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline_s:
        message = client.poll(1.0)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            yield value
            deadline_s = time.monotonic() + _TIMEOUT_S
    raise TimeoutError("no more records")
