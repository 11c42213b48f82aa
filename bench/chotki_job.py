"""The job `chotki`, Kafka to Kafka, against a passthrough of the same records in the same Spark session."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from bench import chotki_material as material
from bench.harness import BenchSettings, Ratio, middle_pair, say
from bench.job_queries import passthrough, spark_session, steady_rate, take_all
from bench.producing import flush, produce
from bench.rig import Rig
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import write_vector
from culm_streaming.chotki.job import ChotkiJobSettings
from culm_topics.chotki.records import (
    CommitRecord,
    OperandRecord,
    PacketRecord,
    RecordOrigin,
    block_partition,
    session_key,
    source_key,
    source_partition,
)
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.topic_spec import DEFAULT_PARTITIONS

_GOAL = 0.25
_BATCHES = 3
_SOURCES = range(0xA0, 0xE0)
_EDGE = bytes(range(32))

Placed = tuple[str, bytes, bytes, int]
"""Topic, key, value, partition."""


def run(settings: BenchSettings) -> list[Ratio]:
    """Run available-now queries of three micro-batches; the first warms up and is not counted."""
    batch, rounds = (4_000, 1) if settings.quick else (100_000, 3)
    with Rig() as rig, spark_session(rig) as session:
        return [_throughput(rig, session, shape, batch, rounds) for shape in _SHAPES]


def _throughput(rig: Rig, session: SparkSession, shape: str, batch: int, rounds: int) -> Ratio:
    topic, make = _SHAPES[shape]
    prefix = shape.replace(" ", "-")
    elsewhere = rig.topics(f"copy-{prefix}.")
    kept, passed = [], []
    for number in range(rounds):
        # A job without a checkpoint starts after what `chotki.state` covers, so each round has its own
        # topics.
        kafka = rig.topics(f"{prefix}-{number}.")
        say(f"  making {shape}")
        _produce(kafka, make(batch * _BATCHES))
        checkpoint = str(rig.folder / "checkpoints" / f"{prefix}-{number}")
        passed.append(passthrough(session, kafka, elsewhere, {topic: batch}, topic, f"{checkpoint}-copy"))
        job_settings = ChotkiJobSettings(max_offsets_per_trigger=batch)
        kept.append(steady_rate(take_all(session, kafka, "chotki", job_settings, checkpoint)))
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
    """Yield the records that edges write for diffs of several replicas, alternating: fields of objects."""
    objects = records // len(_SOURCES) // (len(material.FIELDS) + 1)
    series = [
        (RecordOrigin(_EDGE, src, session), material.fields(src, objects))
        for session, src in enumerate(_SOURCES, 1)
    ]
    while series:
        for stream in list(series):
            origin, fields = stream
            for _ in range(1_000):
                field = next(fields, None)
                if field is None:
                    series.remove(stream)
                    break
                key, value = field
                partition = block_partition(key, DEFAULT_PARTITIONS)
                yield "chotki.fields", key, OperandRecord(origin, value).encode(), partition
    for session, src in enumerate(_SOURCES, 1):
        origin = RecordOrigin(_EDGE, src, session)
        vector = write_vector({src: material.last_entry(src, objects)})
        commit = CommitRecord(origin, Id(src, 0), vector, b"", ())
        yield "chotki.commits", session_key(_EDGE, session), commit.encode(), 0


def _new_objects(records: int) -> Iterator[Placed]:
    """Yield live packets of several replicas, alternating, each a new object: one output record per field."""
    objects = records // len(_SOURCES)
    return _by_turns({src: material.packets(src, objects) for src in _SOURCES})


def _edits(records: int) -> Iterator[Placed]:
    """Yield live packets of several replicas, alternating, each an edit of one field of a thousand
    objects.
    """
    count = records // len(_SOURCES)
    return _by_turns({src: itertools.islice(material.edits(src, 1_000), count) for src in _SOURCES})


def _by_turns(series: dict[int, Iterator[tuple[int, bytes]]]) -> Iterator[Placed]:
    """Yield packets as edges write them; each builds on the one before it."""
    afters = dict.fromkeys(series, 0)
    places = {src: (source_key(src), source_partition(src, DEFAULT_PARTITIONS)) for src in series}
    for turn in itertools.zip_longest(
        *(zip(itertools.repeat(src), packets, strict=False) for src, packets in series.items())
    ):
        for turn_packet in turn:
            if turn_packet is not None:
                src, (entry, packet) = turn_packet
                value = PacketRecord(RecordOrigin(_EDGE, src, src), afters[src], packet).encode()
                afters[src] = entry
                key, partition = places[src]
                yield "chotki.packets", key, value, partition


_SHAPES: dict[str, tuple[str, Callable[[int], Iterator[Placed]]]] = {
    "diffs": ("chotki.fields", _diffs),
    "live edits": ("chotki.packets", _edits),
    "new objects": ("chotki.packets", _new_objects),
}
"""Generators of records, with their topics, by the name of the case."""


def _produce(kafka: KafkaSettings, records: Iterator[Placed]) -> None:
    client = producer(kafka, bulk=True)
    for name, key, value, partition in records:
        produce(client, kafka.topic(name), key, value, partition)
    flush(client)
