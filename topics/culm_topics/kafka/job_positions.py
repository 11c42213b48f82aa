"""The position up to which each job has read, published as the committed offsets of a group of its name.

A job resumes from its checkpoint, never from these offsets. They say up to which input all of its output has
been written. A reader that fetches them first and then reads that output to its end knows which input the job
has processed. Tools that show the lag of consumer groups also show the lag of the jobs.

The offsets are read and committed by a consumer of that group that never joins it. The admin client can do
both, but librdkafka 2.16 ends the process if the group's coordinator answers such a request after its timeout
(`rd_kafka_enq_once_del_source_return: Assertion eonce->refcnt`), or answers that it is not the coordinator (a
null pointer). Every broker that is starting does the latter.
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
"""Full name of the topic, number of the partition."""

_AGAIN_SECONDS: Final = 3_600.0
"""Interval of repeated commits: brokers delete a group's offsets without members, by default after a week."""
_TIMEOUT_SECONDS = 10.0
_PROPERTIES = {
    # The client's reports are not polled, and each request fails with its own error.
    "log_level": "2",
    # A commit has no timeout of its own.
    "socket.timeout.ms": str(int(_TIMEOUT_SECONDS * 1000)),
}


def job_group_prefix(settings: KafkaSettings) -> str:
    """Return the prefix of the jobs' group ids; jobs start from checkpoints and commit for other programs."""
    return f"{settings.prefix}job-"


def publish_positions(kafka: KafkaSettings, job: str, positions: Mapping[Partition, int]) -> None:
    """Commit the positions of a job, by (full name of the topic, partition). Raises `KafkaFailure`."""
    offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]
    with _group(kafka, job, "committed") as client:
        _raise_first(client.commit(offsets=offsets, asynchronous=False))


def read_positions(kafka: KafkaSettings, job: str, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Return a job's committed positions by (full name of the topic, partition).

    Empty if it never has committed, or so long ago that the broker deleted the offsets. Raises
    `KafkaFailure`.
    """
    asked = [TopicPartition(topic, number) for topic, number in partitions]
    with _group(kafka, job, "read") as client:
        answered = client.committed(asked, timeout=_TIMEOUT_SECONDS)
        _raise_first(answered)
    return {
        (position.topic, position.partition): position.offset for position in answered if position.offset >= 0
    }


@contextmanager
def _group(kafka: KafkaSettings, job: str, done: str) -> Iterator[Consumer]:
    """Open a consumer with a job's group id; errors of Kafka are raised as `KafkaFailure`."""
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
    for position in answered or ():
        if position.error is not None:
            raise KafkaException(position.error)


class PositionsPublisher:
    """Publishes the positions it receives; every method may be called from any thread."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._positions: dict[str, dict[Partition, int]] = {}
        self._published: dict[str, tuple[dict[Partition, int], float]] = {}
        self._failed = False
        self._noting, self._publishing = Lock(), Lock()

    def note(self, job: str, positions: Mapping[Partition, int]) -> None:
        """Record the position up to which all output of a job is written."""
        with self._noting:
            self._positions[job] = self._positions.get(job, {}) | dict(positions)

    def publish(self) -> None:
        """Publish changed positions. A failure is logged once in a row; the next call retries."""
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
