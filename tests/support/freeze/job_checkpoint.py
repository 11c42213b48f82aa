"""The checkpoint of one job with its topics, and what comes of both when more records come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import cbor2

from culm_streaming.run import RunSettings, run_jobs
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.freeze import frozen
from tests.support.freeze.jobs import adopt
from tests.support.freeze.topics import keep_topics, restore_topics
from tests.support.kafka.broker import running_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
Record = TypeVar("Record", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class JobCheckpoint(Generic[Record]):
    """A fixture of a job: `inputs` are the records that come first and those that come later."""

    job: str
    job_settings: Any
    inputs: Callable[[], tuple[list[Record], list[Record]]]
    write: Callable[[KafkaSettings, list[Record]], None]
    outcome: Callable[[KafkaSettings], Any]

    @property
    def name(self) -> str:
        """Name of the fixture."""
        return f"{self.job}-checkpoint"

    def make(self, folder: Path) -> None:
        """Make the fixture, and keep the outcome of one uninterrupted run over the same records."""
        from tests.support.spark.session import spark_session

        first, later = self.inputs()
        with running_broker(folder / "kafka") as broker:
            spark = spark_session()
            kafka = self._settings(broker.bootstrap)
            admin.create(kafka)
            kept = folder / "kept"
            self.write(kafka, first)
            self._run(spark, kafka, kept / "checkpoints")
            keep_topics(kafka, kept / "topics.cbor")
            (kept / "later.cbor").write_bytes(cbor2.dumps(later))
            frozen.pack(kept, self.name)

            whole = kafka.model_copy(update={"prefix": "whole."})
            admin.create(whole)
            self.write(whole, first + later)
            self._run(spark, whole, folder / "whole")
            frozen.keep(self.name, self.outcome(whole))
            spark.stop()

    def assert_goes_on(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        """Assert that a run from the kept checkpoint ends as the uninterrupted one did."""
        kafka = self._settings(bootstrap)
        frozen.unpack(self.name, folder)
        restore_topics(kafka, folder / "topics.cbor")
        adopt(kafka, folder, (self.job,))
        before = self.outcome(kafka)
        later: list[Any] = [tuple(record) for record in cbor2.loads((folder / "later.cbor").read_bytes())]
        self.write(kafka, later)
        self._run(spark, kafka, folder / "checkpoints")
        outcome = self.outcome(kafka)
        frozen.assert_as_kept(self.name, outcome)
        assert outcome != before

    def _settings(self, bootstrap: str) -> KafkaSettings:
        return KafkaSettings(bootstrap=bootstrap, prefix=f"frozen-{self.job}.", partitions=PARTITIONS)

    def _run(self, spark: SparkSession, kafka: KafkaSettings, checkpoints: Path) -> None:
        """Have the job take what is there, in several micro-batches."""
        todo = RunSettings(
            kafka=kafka,
            checkpoints=str(checkpoints),
            jobs=(self.job,),
            once=True,
            job_settings={self.job: self.job_settings},
        )
        run_jobs(spark, todo, stop=Event())
