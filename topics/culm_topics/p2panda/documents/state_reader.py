"""Follows the topic `documents`, and keeps its contents in a local file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from culm_models.p2panda.operations.schema import DEFINITION, FIELD_DEFINITION
from culm_topics.closing import Closing
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.p2panda.documents.current import CurrentDocuments
from culm_topics.p2panda.documents.document_file import AppliedDocument, DocumentFile, ReadRecord, read_record
from culm_topics.p2panda.documents.log_operations import DEFAULT_MAX_SCAN_RECORDS, LogOperations
from culm_topics.p2panda.documents.record import DOCUMENTS_TOPIC
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import TopicPartitions, read_through
from culm_topics.readers.topic_watch import TopicWatch

_CHECK_SECONDS: Final = 30.0
_DEFINITIONS: Final = frozenset({DEFINITION, FIELD_DEFINITION})


class DocumentStateReader(Closing):
    """Reads `documents` from its beginning, or from the position of the file in `state_dir`.

    `current` are the documents as far as records were read. Raises `TopicMissing`, `TopicRecreated`,
    `OffsetOutOfRange`, `KafkaFailure` if the broker fails, `DocumentsFileFailed`. Not for several threads.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        state_dir: Path | None = None,
        max_scan_records: int = DEFAULT_MAX_SCAN_RECORDS,
        topic_check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        topic = settings.topic(DOCUMENTS_TOPIC)
        self._watch = TopicWatch(settings, topic, interval_seconds=topic_check_seconds)
        self.origin = self._watch.origin
        self.passed_over = PassedOver(DOCUMENTS_TOPIC)
        """Malformed records; each is skipped on its own."""
        self._file = DocumentFile(state_dir, self.origin.encode())
        self._operations = LogOperations(settings, self._file.operations, max_scan_records=max_scan_records)
        self._reader = TopicPartitions(settings, DOCUMENTS_TOPIC)
        self.current = CurrentDocuments(self._file, self._operations)
        try:
            count, known = self._watch.partition_count, self._file.positions()
            self._ends = self._reader.read_from(
                {number: known.get(number) or self._reader.range_of(number)[0] for number in range(count)}
            )
        except BaseException:
            self.close()
            raise
        self._applied = self.positions
        """Positions up to which the file has the records."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset to read, by partition."""
        return dict(self._reader.positions)

    @property
    def remaining(self) -> int:
        """Number of offsets left to read until the end at the start, or at the last `catch_up`."""
        return self._reader.remaining(self._ends)

    @property
    def is_read(self) -> bool:
        """Whether everything has been read that the topic had at the start."""
        return self._reader.has_reached(self._ends)

    def poll(self, timeout_seconds: float) -> list[AppliedDocument]:
        """Read new records, and wait at most `timeout_seconds` for the first.

        Returns the documents that changed.
        """
        self._watch.poll()
        before = self.positions
        messages = self._reader.poll(timeout_seconds)
        return self._apply(messages) if before != self._reader.positions else []

    def catch_up(self) -> None:
        """Read to the present ends. Raises `KafkaFailure` if the broker sends nothing for 30 seconds."""
        self._ends = self._reader.ends()
        for messages in read_through(self._reader, self._ends):
            self._apply(messages)

    def _apply(self, messages: Iterable[TopicMessage]) -> list[AppliedDocument]:
        records: list[ReadRecord] = []
        for message in messages:
            try:
                records.append(read_record(message))
            except RecordError as error:
                self.passed_over.add(message, error)
        try:
            applied = self._file.apply(records, self._reader.positions)
        except BaseException:
            # Nothing of it is in the file: a program that goes on after a full disk reads it again.
            self._reader.assign(self._applied)
            raise
        self._applied = self.positions
        if any(change.schema_id in _DEFINITIONS for change in applied):
            self.current.typing.forget_unknown()
        return applied

    def close(self) -> None:
        """Close the connections and the file: no lookups are possible afterwards."""
        self._reader.close()
        self._operations.close()
        self._file.close()
