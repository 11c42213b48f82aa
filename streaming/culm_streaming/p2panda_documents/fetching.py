"""Reads operations of earlier micro-batches in `logs` again, for the values of fields that they set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from culm_models.p2panda.operations.operation import decode_operation
from culm_streaming.errors import StateMissingError
from culm_streaming.p2panda_documents.packing import encoded_fields
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.java_client import with_pem_texts
from culm_topics.kafka.job_positions import job_group_prefix
from culm_topics.logs.records import LogRecord
from culm_topics.readers.at_offsets import Absent, read_at
from culm_topics.readers.partitions import TopicPartitions

Place = tuple[int, int]
"""(partition, offset) of a record of `logs`."""


@dataclass(frozen=True, slots=True)
class FieldsFetcher:
    """Returns the fields of operations by their places, as `encoded_fields` does.

    It is sent to the workers, which create the client once.
    """

    settings_json: str = field(repr=False)  # contains secrets
    max_value_bytes: int

    @classmethod
    def of(cls, settings: KafkaSettings, max_value_bytes: int) -> FieldsFetcher:
        """Return a fetcher that also works on machines without the files that `settings` name.

        Raises `KafkaSettingsError` for a file that cannot be read.
        """
        options = with_pem_texts(settings.options)
        return cls(settings.model_copy(update={"options": options}).model_dump_json(), max_value_bytes)

    def __call__(self, places: Sequence[Place]) -> Mapping[Place, Mapping[str, bytes]]:
        """Return the fields at these places.

        Raises `KafkaFailure` if the broker does not answer: the micro-batch is then repeated. Raises
        `StateMissingError` for a record that is gone.
        """
        offsets: dict[int, list[int]] = {}
        for partition, offset in places:
            offsets.setdefault(partition, []).append(offset)
        found: dict[Place, Mapping[str, bytes]] = {}
        for message in read_at(_reader(self.settings_json), offsets):
            if isinstance(message, Absent):
                raise StateMissingError(f"an operation of a document is no longer in logs: {message}")
            operation = decode_operation(LogRecord.decode(message.value).operation)
            found[message.partition, message.offset] = encoded_fields(operation, self.max_value_bytes) or {}
        return found


@lru_cache(maxsize=1)
def _reader(settings_json: str) -> TopicPartitions:
    settings = KafkaSettings.model_validate_json(settings_json)
    return TopicPartitions(settings, "logs", group_prefix=f"{job_group_prefix(settings)}fields-")
