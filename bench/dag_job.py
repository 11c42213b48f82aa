"""The job `dag`, Kafka to Kafka, against a passthrough of the same records in the same Spark session."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from bench.harness import BenchSettings, Ratio, best_rate, middle_pair, say
from bench.job_queries import passthrough, spark_session, steady_rate, take_all
from bench.material import verify_all
from bench.producing import flush, produce
from bench.rig import Rig
from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of
from culm_models.dag.car import write_car
from culm_models.dag.replica.codec import decode_node, encode_append, encode_join, encode_node, proof_value
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.ucan.did_key import did_key, did_text
from culm_models.dag.ucan.signing import issue_ucan
from culm_models.keys import KeyPair
from culm_streaming.dag.job import DagJobSettings
from culm_topics.dag.records import (
    NodeRecord,
    PublishRecord,
    cid_partition,
    node_key,
    split_node_key,
    split_shard_chunk_key,
)
from culm_topics.dag.shard_chunks import cut_shard
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.records.keys import key_partition
from culm_topics.topic_spec import DEFAULT_PARTITIONS

_GOAL: Final = 0.25
_BATCHES: Final = 3
_WRITERS: Final = 50
_BLOCKS: Final = 13
"""Number of blocks of 256 KiB in a shard of the usual size."""
_BLOCK_BYTES: Final = 262_144
_NOW: Final = 1_800_000_000
_SOURCE: Final = b"culm bench: the job of DAG replication"


class _Record(NamedTuple):
    topic: str
    key: bytes
    value: bytes


class _Shape(NamedTuple):
    """A generator of records, and how many records of each topic a micro-batch takes."""

    name: str
    make: Callable[[int], Iterator[_Record]]
    takes: dict[str, int]


def run(settings: BenchSettings) -> list[Ratio]:
    """Run available-now queries of three micro-batches; the first warms up and is not counted."""
    nodes, publishes, chunks, rounds = (2_000, 500, 8, 1) if settings.quick else (50_000, 10_000, 64, 3)
    shapes = (
        _Shape("appends and joins", _nodes, {"dag.nodes": nodes}),
        _Shape("publishes with UCANs", _publishes, {"dag.publishes": publishes}),
        _Shape("chunks of shards", _chunks, {"dag.shards": chunks}),
        _Shape(
            "a publish, its append and its shard by turns",
            _by_turns,
            {"dag.publishes": publishes, "dag.nodes": publishes, "dag.shards": publishes},
        ),
    )
    with Rig() as rig, spark_session(rig) as session:
        return [ratio for shape in shapes for ratio in _measured(rig, session, shape, rounds)]


def _measured(rig: Rig, session: SparkSession, shape: _Shape, rounds: int) -> list[Ratio]:
    prefix = shape.name.replace(" ", "-").replace(",", "")
    kafka, elsewhere = rig.topics(f"{prefix}."), rig.topics(f"copy-{prefix}.")
    say(f"  making {shape.name}")
    count = max(shape.takes.values()) * _BATCHES
    _produce(kafka, shape.make(count))
    job_settings = DagJobSettings(
        max_offsets_per_trigger=max(shape.takes.get(topic, 1) for topic in ("dag.nodes", "dag.publishes")),
        max_chunks_per_trigger=shape.takes.get("dag.shards", 1),
    )
    signed = _for_sign_open(shape, min(count, 5_000))
    cores = os.cpu_count() or 1
    kept, passed, bare = [], [], []
    for number in range(rounds):
        checkpoint = str(rig.folder / "checkpoints" / f"{prefix}-{number}")
        passed.append(passthrough(session, kafka, elsewhere, shape.takes, "dag.nodes", f"{checkpoint}-copy"))
        if signed:
            bare.append(best_rate(lambda: verify_all(signed, cores), repeats=1) * len(shape.takes))
        kept.append(steady_rate(take_all(session, kafka, "dag", job_settings, checkpoint)))
        say(f"  dag, {shape.name}: {kept[-1]:,.0f} records/s against {passed[-1]:,.0f}; {bare}")
    details = {
        "records": sum(shape.takes.values()) * (_BATCHES - 1),
        "cores": cores,
        "rounds": kept,
        "limit_rounds": passed,
    }
    against = "Kafka to Kafka passthrough, same session"
    name = f"dag job, {shape.name}"
    ratios = [
        Ratio("dag-job", name, *middle_pair(kept, passed), "records/s", against, goal=_GOAL, details=details)
    ]
    if bare:
        limit = f"bare PyNaCl verify of their leaves, {cores} threads"
        ratios.append(Ratio("dag-job", name, *middle_pair(kept, bare), "records/s", limit, goal=None))
    return ratios


def _for_sign_open(shape: _Shape, count: int) -> list[tuple[bytes, bytes]]:
    """Return the input of bare verification for publishes: signature with text, and the key."""
    if "dag.publishes" not in shape.takes:
        return []
    proofs = [
        node.change.proof
        for node in (decode_node(PublishRecord.decode(publish.value).data) for publish in _publishes(count))
        if isinstance(node.change, PublishChange)
    ]
    return [(proof.signature + proof.signed_text, proof.claims.issuer[2:]) for proof in proofs]


class _Writer:
    """One id with its space; each append and publish follows its previous one."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._key = KeyPair(source.randbytes(32))
        self.space = self._key.public_key
        self._head: Cid | None = None
        self._tip: Cid | None = None

    def append(self, shard: Cid) -> ReplicaNode:
        node = encode_append([shard], self._head)
        self._head = node.cid
        return node

    def fork_and_join(self, shards: tuple[Cid, Cid]) -> tuple[ReplicaNode, ReplicaNode, ReplicaNode]:
        left, right = (encode_append([shard], self._head) for shard in shards)
        join = encode_join([left.cid, right.cid])
        self._head = join.cid
        return left, right, join

    def publish(self, link: Cid, origin: Cid) -> ReplicaNode:
        named = {"link": link, "origin": origin}
        if self._tip is not None:
            named["prior"] = self._tip
        did = did_key(self.space)
        capability = {"can": "dag/publish", "with": did_text(did), "nb": named}
        leaf = issue_ucan(self._key.private_key, {"att": [capability], "aud": did, "exp": None, "prf": []})
        change = {
            "type": "publish",
            "id": self.space,
            "link": link,
            "origin": origin,
            "proof": proof_value(leaf),
        }
        node = encode_node(change, self._tip)
        self._tip = node.cid
        return node


def _writers(source: random.Random) -> list[_Writer]:
    return [_Writer(source) for _ in range(_WRITERS)]


def _nodes(count: int) -> Iterator[_Record]:
    """Yield the nodes of fifty writers, alternating: four appends, then two concurrent ones and their join.

    Each append names a shard.
    """
    source = random.Random(_SOURCE)
    writers = _writers(source)

    def shard() -> Cid:
        return cid_of(CAR, source.randbytes(16))

    made = 0
    while made < count:
        for writer in writers:
            nodes = [writer.append(shard()) for _ in range(4)]
            nodes += writer.fork_and_join((shard(), shard()))
            made += len(nodes)
            yield from (_node(writer.space, node) for node in nodes)


def _publishes(count: int) -> Iterator[_Record]:
    """Yield publishes of fifty ids, alternating, each on the one before; their roots are missing."""
    source = random.Random(_SOURCE)
    writers = _writers(source)
    for number in range(count):
        link, origin = (cid_of(DAG_CBOR, source.randbytes(16)) for _ in range(2))
        writer = writers[number % _WRITERS]
        yield _publish(writer.space, writer.publish(link, origin))


def _chunks(count: int) -> Iterator[_Record]:
    """Yield shards of four chunks, with blocks of 256 KiB."""
    source = random.Random(_SOURCE)
    made = 0
    while made < count:
        blocks = [source.randbytes(_BLOCK_BYTES) for _ in range(_BLOCKS)]
        for chunk in _shard(write_car([], [(cid_of(RAW, block), block) for block in blocks])):
            made += 1
            yield chunk


def _by_turns(count: int) -> Iterator[_Record]:
    """Yield small files of fifty writers: each a shard, an append, and a complete publish."""
    source = random.Random(_SOURCE)
    writers = _writers(source)
    for number in range(count):
        writer = writers[number % _WRITERS]
        file = source.randbytes(1_000)
        car = write_car([cid_of(RAW, file)], [(cid_of(RAW, file), file)])
        append = writer.append(cid_of(CAR, car))
        yield _publish(writer.space, writer.publish(cid_of(RAW, file), append.cid))
        yield _node(writer.space, append)
        yield from _shard(car)


def _node(space: bytes, node: ReplicaNode) -> _Record:
    return _Record("dag.nodes", node_key(space, node.cid), NodeRecord(node.data, bytes(32)).encode())


def _publish(id: bytes, node: ReplicaNode) -> _Record:
    record = PublishRecord(node.cid, node.prior, node.data, _NOW, bytes(32))
    return _Record("dag.publishes", id, record.encode())


def _shard(car: bytes) -> Iterator[_Record]:
    for key, record in cut_shard(cid_of(CAR, car), len(car), [car], space=bytes(32), peer=bytes(32)):
        yield _Record("dag.shards", key, record.encode())


def _partition(record: _Record) -> int:
    if record.topic == "dag.nodes":
        return cid_partition(split_node_key(record.key)[1], DEFAULT_PARTITIONS)
    if record.topic == "dag.shards":
        return cid_partition(split_shard_chunk_key(record.key)[0], DEFAULT_PARTITIONS)
    return key_partition(record.key, DEFAULT_PARTITIONS)


def _produce(kafka: KafkaSettings, records: Iterator[_Record]) -> None:
    client = producer(kafka, bulk=True)
    for record in records:
        produce(client, kafka.topic(record.topic), record.key, record.value, _partition(record))
    flush(client)
