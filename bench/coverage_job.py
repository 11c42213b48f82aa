"""The job `coverage`, Kafka to Kafka, against a passthrough of the same records in the same Spark session."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Final

from pyspark.sql import SparkSession

from bench.harness import BenchSettings, Ratio, middle_pair, say
from bench.job_queries import passthrough, spark_session, steady_rate, take_all
from bench.producing import flush
from bench.rig import Rig
from culm_models.bamboo import lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.keys import KeyPair
from culm_streaming.coverage.job import CoverageSettings
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import (
    FragmentRecord,
    HoldingRecord,
    LogRecord,
    fragment_key,
    fragment_partition,
)
from culm_topics.records import log_key
from culm_topics.topic_spec import DEFAULT_PARTITIONS

_GOAL: Final = 0.25
_BATCHES: Final = 3
_ENTRY_BYTES: Final = 330
_PAYLOAD_BYTES: Final = 200
_PEERS: Final = 50
_SPARSE: Final = 50
"""Number of entries of a log with gaps: every other entry is missing."""


def run(settings: BenchSettings) -> list[Ratio]:
    """Run available-now queries of three micro-batches; the first warms up and is not counted."""
    batch, logs, rounds = (10_000, 1_000, 1) if settings.quick else (200_000, 10_000, 3)
    cores = os.cpu_count() or 1
    with Rig() as rig:
        whole, mixed, elsewhere = rig.topics("whole."), rig.topics("mixed."), rig.topics("elsewhere.")
        say("  making records")
        _produce(whole, "logs", _in_logs(batch * _BATCHES, logs, seed=1))
        # Three fifths of the records are entries of logs without gaps, the rest are fragments and claims.
        parts = {"logs": batch * 3 // 5, "fragments": batch // 5, "holdings": batch // 5}
        _produce(mixed, "logs", _in_logs(parts["logs"] * _BATCHES, logs, seed=2))
        _produce(
            mixed,
            "fragments",
            _fragments(parts["fragments"] * _BATCHES, mixed.partitions or DEFAULT_PARTITIONS),
        )
        _produce(mixed, "holdings", _holdings(parts["holdings"] * _BATCHES, logs, seed=2))
        ratios = []
        with spark_session(rig) as session:
            bench = _Bench(session, rig)
            for name, kafka, takes in (
                ("coverage job, whole logs", whole, {"logs": batch}),
                ("coverage job, logs, fragments and claims", mixed, parts),
            ):
                kept, passed = [], []
                for _ in range(rounds):
                    passed.append(bench.passthrough(kafka, elsewhere, takes))
                    kept.append(bench.coverage(kafka, takes))
                    say(f"  {name}: {kept[-1]:,.0f} rows/s against {passed[-1]:,.0f}")
                details = {
                    "rows": batch * (_BATCHES - 1),
                    "logs": logs,
                    "cores": cores,
                    "rounds": kept,
                    "limit_rounds": passed,
                }
                against = "Kafka to Kafka passthrough, same session"
                pair = middle_pair(kept, passed)
                ratios.append(Ratio("coverage", name, *pair, "rows/s", against, goal=_GOAL, details=details))
    return ratios


class _Bench:
    """Queries in one session, each with its own checkpoint."""

    def __init__(self, session: SparkSession, rig: Rig) -> None:
        self._session = session
        self._rig = rig
        self._queries = 0

    def _checkpoint(self) -> str:
        self._queries += 1
        return str(self._rig.folder / "checkpoints" / str(self._queries))

    def coverage(self, kafka: KafkaSettings, takes: dict[str, int]) -> float:
        """Return rows per second of the job; signatures are left to connectors, since bare verify bounds
        them.
        """
        job_settings = CoverageSettings(
            verify="chain",
            max_offsets_per_trigger=takes["logs"],
            max_fragments_per_trigger=takes.get("fragments", 1),
            max_holdings_per_trigger=takes.get("holdings", 1),
        )
        return steady_rate(take_all(self._session, kafka, "coverage", job_settings, self._checkpoint()))

    def passthrough(self, source: KafkaSettings, sink: KafkaSettings, takes: dict[str, int]) -> float:
        """Return rows per second of a query that only copies."""
        return passthrough(self._session, source, sink, takes, "entries", self._checkpoint())


_Record = tuple[int, bytes, bytes]
"""(partition, or -1 for the key's own; key; value)."""


def _keys(count: int, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [log_key(chance.randbytes(32), 0, YAMF) for _ in range(count)]


def _in_logs(count: int, logs: int, seed: int) -> Iterator[_Record]:
    """Yield entries of complete logs, in random order of the logs; the content of an entry is not read."""
    chance = random.Random(seed)
    keys, heights = _keys(logs, seed), [0] * logs
    for _ in range(count):
        log = chance.randrange(logs)
        heights[log] += 1
        entry, payload = chance.randbytes(_ENTRY_BYTES), chance.randbytes(_PAYLOAD_BYTES)
        entry_hash = YAMF.prefix + chance.randbytes(64)
        yield -1, keys[log], LogRecord(heights[log], entry, payload, entry_hash, "").encode()


def _fragments(count: int, partitions: int) -> Iterator[_Record]:
    """Yield every other entry of many logs, as a sparse reader sends them."""
    for log in range(-(-count // _SPARSE)):
        key_pair = KeyPair.generate(f"author {log} of the benchmark, of at least 32 bytes".encode())
        key = log_key(key_pair.public_key, 0, YAMF)
        partition = fragment_partition(key, partitions)
        hashes: list[bytes] = []
        for seq_num in range(1, 2 * _SPARSE + 1):
            skiplink = hashes[lipmaa(seq_num) - 1] if needs_skiplink(seq_num) else None
            backlink = hashes[-1] if hashes else None
            entry = sign_entry(
                key_pair, 0, seq_num, b"payload", skiplink=skiplink, backlink=backlink, flavour=YAMF
            )
            hashes.append(YAMF.hash(entry))
            if seq_num % 2 == 0 and log * _SPARSE + seq_num // 2 <= count:
                yield partition, fragment_key(key, seq_num), FragmentRecord(entry, hashes[-1]).encode()


def _holdings(count: int, logs: int, seed: int) -> Iterator[_Record]:
    """Yield claims of each peer that it holds further entries of a log."""
    chance = random.Random(seed + 1)
    keys = _keys(logs, seed)
    peers = [chance.randbytes(32) for _ in range(_PEERS)]
    for number in range(count):
        start = 1 + chance.randrange(50) * 4
        runs = ((start, start + 1 + chance.randrange(4)),)
        peer, key = peers[number % _PEERS], keys[chance.randrange(logs)]
        yield -1, peer, HoldingRecord(key, runs, runs).encode()


def _produce(kafka: KafkaSettings, name: str, records: Iterator[_Record]) -> None:
    client, topic = producer(kafka, bulk=True), kafka.topic(name)
    for partition, key, value in records:
        client.produce(topic, value, key, partition)
        client.poll(0)
    flush(client)
