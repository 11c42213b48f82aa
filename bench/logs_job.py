"""The job `logs`, Kafka to Kafka, against a passthrough in the same Spark session and against bare verify."""

from __future__ import annotations

import os
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.harness import Ratio, Settings, best_rate, middle_pair, say
from bench.material import entries, for_sign_open, produce_entries, verify_all
from bench.rig import Rig
from culm_infra.stack import find_java, jars
from culm_streaming.kafka_io.topics import kafka_sink, kafka_source
from culm_streaming.logs.job import LogsSettings, Verify
from culm_streaming.progress import BatchProgress, read_progress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.session import SessionSettings, start_session
from culm_topics.kafka.clients import KafkaSettings

_CHAIN_GOAL = 0.35
_FULL_GOAL = 0.7
_BATCHES = 3
_VERIFIED = 10_000


def run(settings: Settings) -> list[Ratio]:
    """Available-now queries of three micro-batches, of which the first warms up and is not counted."""
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
        bench = _Bench(
            start_session(
                SessionSettings(
                    jars=jars.ensure("spark"),
                    master=f"local[{cores}]",
                    java_home=find_java().home,
                    log_file=rig.folder / "spark.log",
                )
            ),
            rig,
        )
        chained, passed, verified, bare = [], [], [], []
        try:
            for _ in range(rounds):
                passed.append(bench.passthrough(chain, elsewhere, chain_batch))
                chained.append(bench.logs(chain, chain_batch, "chain"))
                say(f"  chain: {chained[-1]:,.0f} rows/s against {passed[-1]:,.0f}")
                bare.append(best_rate(lambda: verify_all(signed, cores), repeats=2))
                verified.append(bench.logs(full, full_batch, "full"))
                say(f"  full: {verified[-1]:,.0f} rows/s against {bare[-1]:,.0f}")
        finally:
            bench.session.stop()
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
    """Queries in one session, each with a checkpoint of its own."""

    def __init__(self, session: SparkSession, rig: Rig) -> None:
        self.session = session
        self._rig = rig
        self._queries = 0

    def _checkpoint(self) -> str:
        self._queries += 1
        return str(self._rig.folder / "checkpoints" / str(self._queries))

    def logs(self, kafka: KafkaSettings, batch: int, verify: Verify) -> float:
        """Rows a second of the job."""
        seen: list[BatchProgress] = []
        settings = RunSettings(
            kafka=kafka,
            checkpoints=self._checkpoint(),
            jobs=("logs",),
            job_settings={"logs": LogsSettings(verify=verify, max_offsets_per_trigger=batch)},
            once=True,
        )
        run_jobs(self.session, settings, stop=Event(), on_progress=seen.append)
        return self._rate(verify, seen)

    def passthrough(self, source: KafkaSettings, sink: KafkaSettings, batch: int) -> float:
        """Rows a second of a query that only copies."""
        records = kafka_source(self.session, source, ("entries",), max_offsets_per_trigger=batch).select(
            F.lit(sink.topic("logs")).alias("topic"), "key", "value"
        )
        query = kafka_sink(records, sink, self._checkpoint()).trigger(availableNow=True).start()
        query.awaitTermination()
        return self._rate("passthrough", [read_progress("copy", report) for report in query.recentProgress])

    def _rate(self, name: str, seen: list[BatchProgress]) -> float:
        largest = max(one.rows_in for one in seen)
        # The first warms up; a last one may hold a few rows that rounding by partition left over.
        counted = [one for one in seen if 2 * one.rows_in > largest][1:]
        assert counted, f"{name}: too few micro-batches to leave the first one out"
        return 1_000 * sum(one.rows_in for one in counted) / sum(one.duration_ms for one in counted)
