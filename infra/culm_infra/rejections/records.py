"""Records of `rejected` with their places: read one by one, or made of a message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from culm_infra.errors import InfraError
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.errors import RecordError
from culm_topics.readers.at_offsets import Absent, read_at
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.records import RejectedRecord, split_flavoured_log_key

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings

TOPIC: Final = "rejected"
LOGS: Final = "logs"
BYTES: Final = ("entry", "operation", "first")
"""Items of the record that are refused bytes, or belong to them."""
TOPIC_NAMES: Final = frozenset(topic.name for topic in CATALOGUE)
PROTOCOLS: Final = (LOGS, *dict.fromkeys(name.split(".")[0] for name in sorted(TOPIC_NAMES) if "." in name))
"""The replicated logs, which p2panda and Bamboo share, and each protocol that has topics of its own."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One record of `rejected`. `topic` is the catalogue name of its origin, None if that is not known."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    record: RejectedRecord
    topic: str | None

    @property
    def place(self) -> str:
        """The record's own place, as the commands take it."""
        return f"{self.partition}:{self.offset}"

    @property
    def protocol(self) -> str:
        """The protocol of the origin, or of the code if the origin is not known."""
        family = (self.topic or self.record.code).split(".")[0]
        return family if family in PROTOCOLS else LOGS

    @property
    def log(self) -> str | None:
        """The log that the key names, as `KEY/LOG_ID (FLAVOUR)`; None if it names none."""
        try:
            flavour, (public_key, log_id) = split_flavoured_log_key(self.key)
        except RecordError:
            return None
        return f"{public_key.hex()}/{log_id} ({flavour.name})"

    @classmethod
    def read(cls, message: TopicMessage, prefix: str) -> Rejection:
        """Decode a record. `prefix` is that of the deployment's topics. Raises `RecordError`."""
        record = RejectedRecord.decode(message.value)
        topic = None if record.source is None else _origin_topic(record.source[0], prefix)
        return cls(message.partition, message.offset, message.timestamp_ms, message.key, record, topic)


def rejections_at(kafka: KafkaSettings, places: Iterable[tuple[int, int]]) -> list[Rejection]:
    """Return the records of `rejected` at these places (partition, offset).

    Raises `InfraError` if one is not there, `RecordError` if one is malformed, `TopicMissing`, and
    `KafkaFailure`.
    """
    offsets: dict[int, set[int]] = {}
    for partition, offset in places:
        offsets.setdefault(partition, set()).add(offset)
    rejections = []
    with TopicPartitions(kafka, TOPIC, defaults={"auto.offset.reset": "earliest"}) as reader:
        for message in read_at(reader, offsets):
            if isinstance(message, Absent):
                raise InfraError(str(message), hint="`culm rejected tail` lists the records")
            rejections.append(Rejection.read(message, kafka.prefix))
    return rejections


def _origin_topic(full_name: str, prefix: str) -> str | None:
    """Return the catalogue name of a topic of this deployment, None for any other topic."""
    name = full_name.removeprefix(prefix)
    return name if full_name.startswith(prefix) and name in TOPIC_NAMES else None
