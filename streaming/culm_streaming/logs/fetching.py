"""Reads a record of `entries` again, for the first half of a fork's proof: rare, and few per batch."""

from dataclasses import dataclass

from culm_streaming.kafka_io.fetching import RecordFetcher
from culm_topics.errors import RecordError
from culm_topics.logs.records import EntryRecord
from culm_topics.readers.at_offsets import Absent


@dataclass(frozen=True, slots=True)
class EntryFetcher:
    """Returns entry bytes by their place in `entries`."""

    records: RecordFetcher

    def __call__(self, partition: int, offset: int) -> bytes | None:
        """Return the entry of that record; None if the record is gone or malformed.

        Raises the errors of `RecordFetcher`.
        """
        (message,) = self.records([(partition, offset)])
        if isinstance(message, Absent):
            return None
        try:
            return EntryRecord.decode(message.value).entry
        except RecordError:
            return None
