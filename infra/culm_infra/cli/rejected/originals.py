"""Finds the records of other topics that were refused, as they are on their topics now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from culm_topics.readers.at_offsets import Absent, read_at
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions

if TYPE_CHECKING:
    from culm_infra.rejections.records import Rejection
    from culm_topics.kafka.clients import KafkaSettings


@dataclass(frozen=True, slots=True)
class Original:
    """The record that a rejection names. Without a message, `reason` says why it cannot be produced again.

    With both, an equal record of the same topic and partition is produced in its place.
    """

    rejection: Rejection
    message: TopicMessage | None = None
    reason: str | None = None


def find_originals(kafka: KafkaSettings, rejections: Iterable[Rejection]) -> Iterator[Original]:
    """Yield the original of each rejection, once for all rejections of one record.

    Raises `TopicMissing`, `KafkaFailure`.
    """
    by_topic: dict[str, dict[tuple[int, int], Rejection]] = {}
    for rejection in rejections:
        source = rejection.record.source
        if source is None:
            yield Original(
                rejection,
                reason="the topic of its origin is not known. Data of a peer that a connector refused never "
                "reached a topic: the peer has to send it again",
            )
        elif rejection.topic is None:
            yield Original(rejection, reason=f"{source[0]}, its origin, is not a topic of this deployment")
        else:
            by_topic.setdefault(rejection.topic, {}).setdefault(source[1:], rejection)
    for topic, wanted in sorted(by_topic.items()):
        yield from _read(kafka, topic, wanted)


def _read(kafka: KafkaSettings, topic: str, wanted: dict[tuple[int, int], Rejection]) -> Iterator[Original]:
    offsets: dict[int, list[int]] = {}
    for partition, offset in wanted:
        offsets.setdefault(partition, []).append(offset)
    digests: set[bytes] = set()
    with TopicPartitions(kafka, topic, defaults={"auto.offset.reset": "earliest"}) as reader:
        for message in read_at(reader, offsets):
            rejection = wanted[message.partition, message.offset]
            if isinstance(message, Absent):
                yield Original(rejection, reason=str(message))
                continue
            if not message.value:
                yield Original(rejection, reason="it has no value")
                continue
            kept = rejection.record.entry
            if kept and kept not in message.value:
                yield Original(
                    rejection,
                    reason=f"offset {message.offset} of {reader.topic} partition {message.partition} is "
                    "another record: the topic was created again since",
                )
                continue
            digest = _digest(message)
            reason = "an equal record is produced" if digest in digests else None
            digests.add(digest)
            yield Original(rejection, message, reason)


def _digest(message: TopicMessage) -> bytes:
    head = f"{message.partition} {len(message.key)} ".encode()
    return sha256(head + message.key + message.value).digest()
