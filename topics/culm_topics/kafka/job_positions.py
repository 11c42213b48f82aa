"""How far each job has read, for everybody to see: as the committed offsets of a consumer group of its name.

A job goes on from its checkpoint, never from these. They say up to where all of its output has been written,
so a reader that asks for them first and then reads that output to its end knows what the job has passed by.
Tools that show the lag of consumer groups show that of the jobs, too.

The offsets are read and committed by a consumer of that group that never joins it. The admin client can do
both, but librdkafka 2.16 ends the process when the group's coordinator answers such a request after its time
is up (`rd_kafka_enq_once_del_source_return: Assertion eonce->refcnt`), or that it is not the coordinator (a
null pointer): what every broker does that is starting.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from culm_topics.errors import KafkaFailure
from culm_topics.kafka.clients import KafkaSettings, consumer

logger = logging.getLogger(__name__)

Partition = tuple[str, int]
"""Full name of the topic, number."""

_AGAIN_SECONDS: Final = 3_600.0
"""Brokers forget what a group without members has committed, by default after a week."""
_TIMEOUT_SECONDS = 10.0
_PROPERTIES = {
    # Nobody polls for what the client reports, and each request fails with its own error.
    "log_level": "2",
    # A commit has no timeout of its own.
    "socket.timeout.ms": str(int(_TIMEOUT_SECONDS * 1000)),
}


def job_group_prefix(settings: KafkaSettings) -> str:
    """What the group ids of the jobs start with; they start from checkpoints, and commit for others."""
    return f"{settings.prefix}job-"


def publish_positions(kafka: KafkaSettings, job: str, positions: Mapping[Partition, int]) -> None:
    """Commit the positions, by (full name of the topic, partition), of a job. Raises `KafkaFailure`."""
    offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]
    with _group(kafka, job, "committed") as client:
        _raise_first(client.commit(offsets=offsets, asynchronous=False))


def read_positions(kafka: KafkaSettings, job: str, partitions: Collection[Partition]) -> dict[Partition, int]:
    """The positions that a job has committed for these partitions, by (full name of the topic, partition).

    Empty if it never has, or not for so long that the broker has forgotten them. Raises `KafkaFailure`.
    """
    asked = [TopicPartition(topic, number) for topic, number in partitions]
    with _group(kafka, job, "read") as client:
        answered = client.committed(asked, timeout=_TIMEOUT_SECONDS)
        _raise_first(answered)
    return {(place.topic, place.partition): place.offset for place in answered if place.offset >= 0}


@contextmanager
def _group(kafka: KafkaSettings, job: str, done: str) -> Iterator[Consumer]:
    """A consumer in the name of a job's group; what Kafka refuses is raised as `KafkaFailure`."""
    client = consumer(kafka, group_id=f"{job_group_prefix(kafka)}{job}", defaults=_PROPERTIES)
    try:
        yield client
    except KafkaException as error:
        reason = error.args[0]
        refused = reason.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        raise KafkaFailure(
            f"the positions of the job {job} cannot be {done}: {reason.str()}",
            passes=not refused,
            hint="grant what `culm topics acls` lists" if refused else None,
        ) from error
    finally:
        client.close()


def _raise_first(answered: Collection[TopicPartition] | None) -> None:
    for place in answered or ():
        if place.error is not None:
            raise KafkaException(place.error)


class PositionsPublisher:
    """Publishes the positions that it is told; every method may be called from any thread."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._positions: dict[str, dict[Partition, int]] = {}
        self._published: dict[str, tuple[dict[Partition, int], float]] = {}
        self._failed = False
        self._noting, self._publishing = Lock(), Lock()

    def note(self, job: str, positions: Mapping[Partition, int]) -> None:
        """Note up to where all output of a job is written."""
        with self._noting:
            self._positions[job] = self._positions.get(job, {}) | dict(positions)

    def publish(self) -> None:
        """Publish what has changed; a failure is logged once in a row, and tried again with the next call."""
        with self._publishing:
            self._publish()

    def _publish(self) -> None:
        with self._noting:
            noted = dict(self._positions)
        for job, positions in noted.items():
            now_s = time.monotonic()
            before, published_s = self._published.get(job, ({}, 0.0))
            if not positions or (positions == before and now_s - published_s < _AGAIN_SECONDS):
                continue
            try:
                publish_positions(self._kafka, job, positions)
            except KafkaFailure as error:
                if not self._failed:
                    logger.warning("connectors cannot see how far jobs have read: %s", error)
                self._failed = True
                return
            self._published[job] = positions, now_s
            self._failed = False
