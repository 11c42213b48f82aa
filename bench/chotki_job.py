"""The job `chotki`, Kafka to Kafka, against a passthrough of the same records in the same Spark session."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench import chotki_material as material
from bench.harness import Ratio, Settings, middle_pair, say
from bench.producing import flush, produce
from bench.rig import Rig
from culm_infra.stack import find_java, jars
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import write_vector
from culm_streaming.chotki.job import ChotkiJobSettings
from culm_streaming.kafka_io.topics import kafka_sink, kafka_source
from culm_streaming.progress import BatchProgress, read_progress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.session import SessionSettings, start_session
from culm_topics.catalogue.spec import DEFAULT_PARTITIONS
from culm_topics.chotki.records import (
    Bringer,
    CommitRecord,
    OperandRecord,
    PacketRecord,
    block_partition,
    session_key,
    source_key,
    source_partition,
)
from culm_topics.kafka.clients import KafkaSettings, producer

_GOAL = 0.25
_BATCHES = 3
_SOURCES = range(0xA0, 0xE0)
_EDGE = bytes(range(32))

Placed = tuple[str, bytes, bytes, int]
"""Topic, key, value, partition."""


def run(settings: Settings) -> list[Ratio]:
    """Available-now queries of three micro-batches, of which the first warms up and is not counted."""
    batch, rounds = (4_000, 1) if settings.quick else (100_000, 3)
    with Rig() as rig:
        session = start_session(
            SessionSettings(
                jars=jars.ensure("spark"),
                master=f"local[{os.cpu_count() or 1}]",
                java_home=find_java().home,
                log_file=rig.folder / "spark.log",
            )
        )
        try:
            return [_throughput(rig, session, shape, batch, rounds) for shape in _SHAPES]
        finally:
            session.stop()


def _throughput(rig: Rig, session: SparkSession, shape: str, batch: int, rounds: int) -> Ratio:
    topic, make = _SHAPES[shape]
    prefix = shape.replace(" ", "-")
    elsewhere = rig.topics(f"copy-{prefix}.")
    kept, passed = [], []
    for number in range(rounds):
        # A job without a checkpoint goes on behind what `chotki.state` covers: each round has its own topics.
        kafka = rig.topics(f"{prefix}-{number}.")
        say(f"  making {shape}")
        _produce(kafka, make(batch * _BATCHES))
        checkpoint = str(rig.folder / "checkpoints" / f"{prefix}-{number}")
        passed.append(_passthrough(session, kafka, elsewhere, topic, batch, f"{checkpoint}-copy"))
        kept.append(_chotki(session, kafka, batch, checkpoint))
        say(f"  chotki, {shape}: {kept[-1]:,.0f} records/s against {passed[-1]:,.0f}")
    return Ratio(
        "chotki-job",
        f"chotki job, {shape}",
        *middle_pair(kept, passed),
        "records/s",
        "Kafka to Kafka passthrough, same session",
        goal=_GOAL,
        details={
            "records": batch * (_BATCHES - 1),
            "cores": os.cpu_count(),
            "rounds": kept,
            "limit_rounds": passed,
        },
    )


def _diffs(records: int) -> Iterator[Placed]:
    """What edges write of the diffs of several replicas, by turns: fields of objects."""
    objects = records // len(_SOURCES) // (len(material.FIELDS) + 1)
    series = [
        (Bringer(_EDGE, src, session), material.fields(src, objects))
        for session, src in enumerate(_SOURCES, 1)
    ]
    while series:
        for one in list(series):
            bringer, fields = one
            for _ in range(1_000):
                found = next(fields, None)
                if found is None:
                    series.remove(one)
                    break
                key, value = found
                partition = block_partition(key, DEFAULT_PARTITIONS)
                yield "chotki.fields", key, OperandRecord(bringer, value).encode(), partition
    for session, src in enumerate(_SOURCES, 1):
        bringer = Bringer(_EDGE, src, session)
        vector = write_vector({src: material.last_entry(src, objects)})
        commit = CommitRecord(bringer, Id(src, 0), vector, b"", ())
        yield "chotki.commits", session_key(_EDGE, session), commit.encode(), 0


def _new_objects(records: int) -> Iterator[Placed]:
    """Live packets of several replicas by turns, each a new object: for one record in, one a field out."""
    objects = records // len(_SOURCES)
    return _by_turns({src: material.packets(src, objects) for src in _SOURCES})


def _edits(records: int) -> Iterator[Placed]:
    """Live packets of several replicas by turns, each an edit of one field of one of a thousand objects."""
    count = records // len(_SOURCES)
    return _by_turns({src: itertools.islice(material.edits(src, 1_000), count) for src in _SOURCES})


def _by_turns(series: dict[int, Iterator[tuple[int, bytes]]]) -> Iterator[Placed]:
    """Packets as edges write them; each builds on the one before it."""
    afters = dict.fromkeys(series, 0)
    places = {src: (source_key(src), source_partition(src, DEFAULT_PARTITIONS)) for src in series}
    for turn in itertools.zip_longest(
        *(zip(itertools.repeat(src), packets, strict=False) for src, packets in series.items())
    ):
        for found in turn:
            if found is not None:
                src, (entry, packet) = found
                value = PacketRecord(Bringer(_EDGE, src, src), afters[src], packet).encode()
                afters[src] = entry
                key, partition = places[src]
                yield "chotki.packets", key, value, partition


_SHAPES: dict[str, tuple[str, Callable[[int], Iterator[Placed]]]] = {
    "diffs": ("chotki.fields", _diffs),
    "live edits": ("chotki.packets", _edits),
    "new objects": ("chotki.packets", _new_objects),
}
"""What is produced, to which topic."""


def _produce(kafka: KafkaSettings, records: Iterator[Placed]) -> None:
    client = producer(kafka, bulk=True)
    for name, key, value, partition in records:
        produce(client, kafka.topic(name), key, value, partition)
    flush(client)


def _chotki(session: SparkSession, kafka: KafkaSettings, batch: int, checkpoints: str) -> float:
    seen: list[BatchProgress] = []
    settings = RunSettings(
        kafka=kafka,
        checkpoints=checkpoints,
        jobs=("chotki",),
        job_settings={"chotki": ChotkiJobSettings(max_offsets_per_trigger=batch)},
        once=True,
    )
    run_jobs(session, settings, stop=Event(), on_progress=seen.append)
    return _rate(seen)


def _passthrough(
    session: SparkSession, source: KafkaSettings, sink: KafkaSettings, topic: str, batch: int, checkpoint: str
) -> float:
    records = kafka_source(session, source, (topic,), max_offsets_per_trigger=batch).select(
        F.lit(sink.topic(topic)).alias("topic"), "key", "value"
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
