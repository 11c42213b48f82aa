"""The job `chotki` between real topics, without Spark: a micro-batch is a call."""

from __future__ import annotations

from collections import defaultdict

from culm_streaming.chotki.output_records import Stage, Topic
from culm_streaming.chotki.rows import TOPICS, InputTopic
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki_job import ChotkiJob, ChotkiTopics
from tests.support.topic_io import read_records, write_records

PARTITIONS = 3
NAMES = (*TOPICS.values(), *Topic, "chotki.sources", "chotki.sessions")
_BY_KEY = -1


def chotki_settings(
    bootstrap: str, prefix: str, topic_config: dict[str, dict[str, str]] | None = None
) -> KafkaSettings:
    """Settings whose topics of Chotki exist."""
    settings = KafkaSettings(
        bootstrap=bootstrap, prefix=prefix, partitions=PARTITIONS, topic_config=topic_config or {}
    )
    admin.create(settings, [spec(name) for name in NAMES])
    return settings


class JobOnKafka:
    """Takes what is new on its input topics and writes what the job makes of it."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.job = ChotkiJob(ChotkiTopics(PARTITIONS))
        self._settings = settings

    def run(self) -> int:
        """One micro-batch; returns its epoch, 0 when there is nothing to do."""
        for source in InputTopic:
            found = defaultdict(list)
            for partition, key, value in read_records(self._settings, TOPICS[source]):
                found[partition].append((key or b"", value or b""))
            for partition, records in found.items():
                self.job.topics.records[source, partition] = records
        written = self.job.run()
        for stage in Stage:
            for topic in Topic:
                those = [one for one in written if one.stage is stage and one.topic is topic]
                places = [_BY_KEY if one.partition is None else one.partition for one in those]
                rows = ((place, one.key, one.value) for place, one in zip(places, those, strict=True))
                write_records(self._settings, topic, rows)
        return self.job.marks[0].epoch if written else 0
