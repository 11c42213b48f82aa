"""Reads a record of `entries` again, for the first half of a fork's proof: rare, and few per batch."""

from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic

from confluent_kafka import Consumer, KafkaError, TopicPartition

from culm_topics.errors import KafkaFailure, RecordError
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import job_group_prefix
from culm_topics.logs.records import EntryRecord
from culm_topics.readers.partitions import watermarks

_TIMEOUT_SECONDS = 20.0
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


@dataclass(frozen=True, slots=True)
class EntryFetcher:
    """Returns entry bytes by their place in `entries`.

    It is sent to the workers, which create the client once.
    """

    settings_json: str = field(repr=False)  # contains secrets

    def __call__(self, partition: int, offset: int) -> bytes | None:
        """Return the entry of that record; None if the record is gone or malformed.

        Raises `KafkaFailure` if the broker does not answer: the micro-batch is then repeated.
        """
        client, topic = _client(self.settings_json)
        position = TopicPartition(topic, partition, offset)
        low, high = watermarks(client, topic, partition)
        if not low <= offset < high:
            return None
        client.assign([position])
        try:
            deadline = monotonic() + _TIMEOUT_SECONDS
            while (left := deadline - monotonic()) > 0:
                message = client.poll(left)
                if message is None:
                    break
                fault = message.error()
                if fault is None:
                    return _entry(message.value()) if message.offset() == offset else None
                if fault.code() in _GONE:
                    return None
                if fault.fatal() or not fault.retriable():
                    raise KafkaFailure(f"reading {topic}/{partition} at {offset}: {fault.str()}")
        finally:
            client.unassign()
        raise KafkaFailure(f"reading {topic}/{partition} at {offset}: no answer in {_TIMEOUT_SECONDS:g} s")


def _entry(value: bytes | None) -> bytes | None:
    try:
        return EntryRecord.decode(value).entry
    except RecordError:
        return None


@lru_cache(maxsize=1)
def _client(settings_json: str) -> tuple[Consumer, str]:
    settings = KafkaSettings.model_validate_json(settings_json)
    client = kafka.consumer(settings, group_id=f"{job_group_prefix(settings)}first-entry", start="error")
    return client, settings.topic("entries")
