"""How far each job has read, for everybody to see: as the committed offsets of a consumer group of its name.

A job goes on from its checkpoint, never from these. They say up to where all of its output has been written,
so a reader that asks for them first and then reads that output to its end knows what the job has passed by.
Tools that show the lag of consumer groups show that of the jobs, too.
"""

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from culm_topics.errors import KafkaFailure
from culm_topics.kafka.acls import job_group_prefix
from culm_topics.kafka.clients import KafkaSettings

_TIMEOUT_SECONDS = 10.0


def positions_group(kafka: KafkaSettings, job: str) -> str:
    """The group whose committed offsets are the positions of a job."""
    return f"{job_group_prefix(kafka)}{job}"


def publish_positions(
    client: AdminClient, kafka: KafkaSettings, job: str, positions: Mapping[tuple[str, int], int]
) -> None:
    """Commit the positions, by (full name of the topic, partition), of a job. Raises `KafkaFailure`."""
    places = [TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]
    request = ConsumerGroupTopicPartitions(positions_group(kafka, job), places)
    try:
        for answer in client.alter_consumer_group_offsets(
            [request], request_timeout=_TIMEOUT_SECONDS
        ).values():
            for place in answer.result(_TIMEOUT_SECONDS).topic_partitions:
                if place.error is not None:
                    raise KafkaException(place.error)
    except (KafkaException, TimeoutError) as error:
        raise _failure(f"the positions of the job {job} cannot be committed", error) from error


def read_positions(client: AdminClient, kafka: KafkaSettings, job: str) -> dict[tuple[str, int], int]:
    """The positions that a job has committed, by (full name of the topic, partition).

    Empty if it never has, or not for so long that the broker has forgotten them. Raises `KafkaFailure`.
    """
    request = ConsumerGroupTopicPartitions(positions_group(kafka, job))
    try:
        (answer,) = client.list_consumer_group_offsets([request], request_timeout=_TIMEOUT_SECONDS).values()
        places = answer.result(_TIMEOUT_SECONDS).topic_partitions
    except (KafkaException, TimeoutError) as error:
        raise _failure(f"the positions of the job {job} cannot be read", error) from error
    return {(place.topic, place.partition): place.offset for place in places if place.offset >= 0}


def _failure(what: str, error: KafkaException | TimeoutError) -> KafkaFailure:
    if isinstance(error, TimeoutError):
        return KafkaFailure(f"{what}: no answer in time")
    reason = error.args[0]
    refused = reason.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    hint = "grant what `culm topics acls` lists" if refused else None
    return KafkaFailure(f"{what}: {reason.str()}", passes=not refused, hint=hint)
