"""The job `logs`, Kafka to Kafka, against a passthrough in the same Spark session and against bare verify."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from bench.harness import BenchSettings, Ratio, best_rate, middle_pair, say
from bench.job_queries import passthrough, spark_session, steady_rate, take_all
from bench.material import entries, for_sign_open, produce_entries, verify_all
from bench.rig import Rig
from culm_streaming.logs.job import LogsSettings, Verify
from culm_topics.kafka.clients import KafkaSettings

_CHAIN_GOAL = 0.35
_FULL_GOAL = 0.7
_BATCHES = 3
_VERIFIED = 10_000


def run(settings: BenchSettings) -> list[Ratio]:
    """Run available-now queries of three micro-batches; the first warms up and is not counted."""
    chain_batch, full_batch, rounds = (10_000, 5_000, 1) if settings.quick else (125_000, 100_000, 3)
    cores = os.cpu_count() or 1
    with Rig() as rig:
        chain = rig.topics("chain.")
        full = rig.topics("full.")
        elsewhere = rig.topics("elsewhere.")
        say("  making entries")
        produce_entries(chain, chain_batch * _BATCHES, seed=1)
        produce_entries(full, full_batch * _BATCHES, seed=2)
        signed = for_sign_open(entries(_VERIFIED, seed=3))
        chained, passed, verified, bare = [], [], [], []
        with spark_session(rig) as session:
            bench = _Bench(session, rig)
            for _ in range(rounds):
                passed.append(bench.passthrough(chain, elsewhere, chain_batch))
                chained.append(bench.logs(chain, chain_batch, "chain"))
                say(f"  chain: {chained[-1]:,.0f} rows/s against {passed[-1]:,.0f}")
                bare.append(best_rate(lambda: verify_all(signed, cores), repeats=2))
                verified.append(bench.logs(full, full_batch, "full"))
                say(f"  full: {verified[-1]:,.0f} rows/s against {bare[-1]:,.0f}")
    return [
        Ratio(
            "c",
            "logs job, chain rules",
            *middle_pair(chained, passed),
            "rows/s",
            "Kafka to Kafka passthrough, same session",
            goal=_CHAIN_GOAL,
            details={
                "rows": chain_batch * (_BATCHES - 1),
                "cores": cores,
                "rounds": chained,
                "limit_rounds": passed,
            },
        ),
        Ratio(
            "c",
            "logs job, full verification",
            *middle_pair(verified, bare),
            "rows/s",
            f"bare PyNaCl verify, {cores} threads",
            goal=_FULL_GOAL,
            details={
                "rows": full_batch * (_BATCHES - 1),
                "cores": cores,
                "rounds": verified,
                "limit_rounds": bare,
            },
        ),
    ]


class _Bench:
    """Queries in one session, each with its own checkpoint."""

    def __init__(self, session: SparkSession, rig: Rig) -> None:
        self._session = session
        self._rig = rig
        self._queries = 0

    def _checkpoint(self) -> str:
        self._queries += 1
        return str(self._rig.folder / "checkpoints" / str(self._queries))

    def logs(self, kafka: KafkaSettings, batch: int, verify: Verify) -> float:
        """Return rows per second of the job."""
        job_settings = LogsSettings(verify=verify, max_offsets_per_trigger=batch)
        return steady_rate(take_all(self._session, kafka, "logs", job_settings, self._checkpoint()))

    def passthrough(self, source: KafkaSettings, sink: KafkaSettings, batch: int) -> float:
        """Return rows per second of a query that only copies."""
        return passthrough(self._session, source, sink, {"entries": batch}, "logs", self._checkpoint())
