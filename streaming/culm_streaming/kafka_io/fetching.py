"""Reads single records of a topic again in Spark's workers: rare, and few per micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.java_client import with_pem_texts
from culm_topics.kafka.job_positions import job_group_prefix
from culm_topics.readers.at_offsets import SINGLE_RECORDS, Absent, read_at
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions

RecordPlace = tuple[int, int]
"""(partition, offset) of a record."""

_MAX_CLIENTS: Final = 4
"""Clients of one worker, which runs tasks of several jobs."""


@dataclass(frozen=True, slots=True)
class RecordFetcher:
    """Returns records of the catalogue topic `topic` by their places.

    It is sent to the workers, each of which creates the client once.
    """

    topic: str
    _settings_json: str = field(repr=False)  # contains secrets

    @classmethod
    def of(cls, settings: KafkaSettings, topic: str) -> RecordFetcher:
        """Return a fetcher that also works on machines without the files that `settings` name.

        Raises `KafkaSettingsError` for a file that cannot be read.
        """
        options = with_pem_texts(settings.options)
        return cls(topic, settings.model_copy(update={"options": options}).model_dump_json())

    def __call__(self, places: Iterable[RecordPlace]) -> Iterator[TopicMessage | Absent]:
        """Yield the record at each place, or why there is none.

        Raises `TopicMissing`, and `KafkaFailure` if the broker does not answer: the micro-batch is then
        repeated.
        """
        offsets: dict[int, list[int]] = {}
        for partition, offset in places:
            offsets.setdefault(partition, []).append(offset)
        return read_at(_reader(self.topic, self._settings_json), offsets)


@lru_cache(maxsize=_MAX_CLIENTS)
def _reader(topic: str, settings_json: str) -> TopicPartitions:
    settings = KafkaSettings.model_validate_json(settings_json)
    prefix = f"{job_group_prefix(settings)}records-"
    return TopicPartitions(settings, topic, defaults=SINGLE_RECORDS, group_prefix=prefix)
