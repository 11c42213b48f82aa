"""Creates a connector's Kafka clients. librdkafka's own log is quiet; errors are logged from its events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError

from culm_connectors.kafka.consumer import TopicReader
from culm_connectors.rate_limit import LimitedLog
from culm_topics.kafka.clients import KafkaSettings, consumer
from culm_topics.readers.batch import Partition

_FOLLOWER = {
    "enable.partition.eof": "true",
    # The broker answers at once when a record comes. Each reader keeps its partitions, so that nothing waits
    # for the end of a request. With 50 ms, an idle reader asked 20 times a second.
    "fetch.wait.max.ms": "500",
}
# Every client of a process reports the same absence of a broker, each time it tries again.
_log = LimitedLog(logging.getLogger(__name__), interval_s=10.0)


def log_kafka_error(error: KafkaError) -> None:
    """Log an error that the Kafka client reports; it goes on trying by itself."""
    _log.warning("Kafka: %s", error.str())


def quiet(kafka: KafkaSettings) -> KafkaSettings:
    """Return settings that silence librdkafka's own log lines (twenty a second); errors arrive as events."""
    return kafka.model_copy(update={"options": {"log_level": "2"} | kafka.options})


@dataclass(frozen=True, slots=True)
class TopicReaders:
    """Opens readers of topics, in the name of one consumer group that commits nothing."""

    kafka: KafkaSettings
    group_id: str

    def topic(self, name: str) -> str:
        """Return the full name of a topic, by its name in the catalogue."""
        return self.kafka.topic(name)

    def open(
        self, name: str, offsets: Mapping[Partition, int] | None = None, *, skip_lost: bool = False
    ) -> TopicReader:
        """Return a reader of a topic, by its name in the catalogue; by default it starts at the beginning."""
        make = partial(
            consumer,
            self.kafka,
            group_id=self.group_id,
            on_error=log_kafka_error,
            defaults=_FOLLOWER,
        )
        return TopicReader(make, self.kafka.topic(name), offsets or {}, skip_lost=skip_lost)

    def whole_logs(self) -> TopicReader:
        """Return a reader of the topic `logs` from its first record."""
        return self.open("logs")
