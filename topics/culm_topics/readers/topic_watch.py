"""Watches whether the topic being read is still the same topic, and whether it has more partitions."""

import time
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from culm_topics.errors import TopicMissing, TopicRecreated
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.admin import describe
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.cluster import await_brokers, has_brokers
from culm_topics.kafka.origin import Origin

_REQUEST_TIMEOUT_SECONDS = 10.0
_GLANCE_SECONDS = 0.5


class TopicWatch:
    """The identity of one topic.

    The constructor raises `TopicMissing`, or `KafkaFailure` without a broker.
    """

    def __init__(self, settings: KafkaSettings, topic: str, *, interval_seconds: float) -> None:
        self._admin = kafka.admin(settings)
        self._topic = topic
        self._interval_seconds = interval_seconds
        self._pending: Future[Any] | None = None
        cluster_id = await_brokers(self._admin, _REQUEST_TIMEOUT_SECONDS)
        description = describe(self._admin, [topic], _REQUEST_TIMEOUT_SECONDS)[topic]
        if description is None:
            raise TopicMissing(f"topic {topic} does not exist")
        self.topic_id = str(description.topic_id)
        self.origin = Origin(cluster_id, {topic: self.topic_id})
        self.partition_count = len(description.partitions)
        self._asked_at_s = time.monotonic()

    def poll(self) -> None:
        """Query the broker again if it is time, without waiting for the answer; process the last answer.

        Raises `TopicRecreated` or `TopicMissing` if the topic is not the same any more. A missing answer is
        ignored: the consumer itself notices a broker that is gone.
        """
        if self._pending is None:
            if time.monotonic() - self._asked_at_s >= self._interval_seconds:
                self._asked_at_s = time.monotonic()
                if has_brokers(self._admin, _GLANCE_SECONDS):
                    self._pending = self._ask()
            return
        if self._pending.done():
            pending, self._pending = self._pending, None
            self._take_in(pending)

    def ask_now(self) -> None:
        """Make the next `poll` query the broker at any time."""
        self._asked_at_s = -self._interval_seconds

    def check_now(self) -> None:
        """Query and wait for the answer, at most ten seconds. Raises the same errors as `poll`."""
        if has_brokers(self._admin, _REQUEST_TIMEOUT_SECONDS):
            self._take_in(self._ask())

    def _ask(self) -> "Future[Any]":
        return self._admin.describe_topics(
            TopicCollection([self._topic]), request_timeout=_REQUEST_TIMEOUT_SECONDS
        )[self._topic]

    def _take_in(self, answer: "Future[Any]") -> None:
        try:
            description = answer.result(_REQUEST_TIMEOUT_SECONDS)
        except TimeoutError:
            return
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing(f"topic {self._topic} was deleted while it was being read") from error
            return
        if str(description.topic_id) != self.topic_id:
            raise TopicRecreated(
                f"topic {self._topic} was deleted and created again while it was being read: topic id "
                f"{self.topic_id} became {description.topic_id}"
            )
        self.partition_count = max(self.partition_count, len(description.partitions))
