"""Reading a topic as it stands: every record of every partition up to the end that it has now.

For the small, mostly compacted topics that operators and tools look at (`version-vectors`, `rejected`,
`announcements`). Programs that consume the replicated logs use `LogConsumer`.
"""

from collections.abc import Iterator
from typing import Final

from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions, read_until

_SILENCE_SECONDS: Final = 30.0
"""Silence for this long, with records still to come, is a broker that does not answer."""


def read_to_end(settings: KafkaSettings, name: str) -> Iterator[TopicMessage]:
    """The records of the catalogue topic `name`, each partition in order, up to the end it has now.

    Raises `TopicMissing`, and `KafkaFailure` where the broker fails or falls silent.
    """
    # Records that are removed while others are read are no longer part of the topic.
    with TopicPartitions(settings, name, defaults={"auto.offset.reset": "earliest"}) as reader:
        ranges = {partition: reader.range_of(partition) for partition in range(reader.count())}
        ends = {partition: high for partition, (low, high) in ranges.items() if high > low}
        reader.assign({partition: ranges[partition][0] for partition in ends})
        yield from read_until(reader, ends, _SILENCE_SECONDS)


def offsets_of(settings: KafkaSettings, name: str) -> dict[int, tuple[int, int]]:
    """Of each partition of a catalogue topic its first offset and its end.

    Raises `TopicMissing`, and `KafkaFailure` where the broker fails.
    """
    with TopicPartitions(settings, name) as reader:
        return {partition: reader.range_of(partition) for partition in range(reader.count())}
