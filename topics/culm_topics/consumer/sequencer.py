"""The order of the logs: takes records as they stand in the topic, gives entries as they follow in their log.

No Kafka and no clock in here: what a record is to its log depends on the heights and on what is set aside.
"""

from culm_topics.consumer.early import MAX_EARLY_RECORDS, EarlyRecords, Hole
from culm_topics.consumer.entry import LogEntry
from culm_topics.consumer.heights import Heights, Verdict
from culm_topics.consumer.selection import Selection
from culm_topics.errors import LogGap, RecordError
from culm_topics.records import LogRecord, split_log_key


class Sequencer:
    """Drops repeats, sets early records aside, hands out the rest."""

    def __init__(self, selection: Selection, *, gap_wait_seconds: float, remember_changes: bool) -> None:
        self.selection = selection
        self.heights = Heights(remember_changes=remember_changes)
        self.early = EarlyRecords()
        self._gap_wait_seconds = gap_wait_seconds
        self._following: bytes | None = None

    def learn(self, key: bytes | None, value: bytes | None, partition: int, place: str) -> None:
        """A record that was handed out before: it only raises its log's height."""
        decoded = self._decode(key, value, place)
        if decoded is not None:
            known_key, record = decoded
            self.heights.raise_to(known_key, record.seq_num, partition)

    def push(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        offset: int,
        timestamp_ms: int,
        learns: bool,
        now_s: float,
        place: str,
    ) -> LogEntry | None:
        """The entry to hand out for this record, if any. After each entry, `pull` until it gives None."""
        decoded = self._decode(key, value, place)
        if decoded is None:
            return None
        known_key, record = decoded
        verdict = self.heights.judge(known_key, record.seq_num)
        if verdict is Verdict.REPEAT:
            return None
        if verdict is Verdict.EARLY and learns and not self.early.waits(known_key):
            height = self.heights.height(known_key)
            if height == 0:
                verdict = Verdict.NEXT
        public_key, log_id = split_log_key(known_key)
        entry = LogEntry(
            public_key,
            log_id,
            record.seq_num,
            record.entry,
            record.operation,
            record.entry_hash,
            record.schema_id,
            partition,
            offset,
            timestamp_ms,
        )
        if verdict is Verdict.EARLY:
            self.early.set_aside(entry, self.heights.height(known_key), now_s + self._gap_wait_seconds)
            if len(self.early) > MAX_EARLY_RECORDS:
                raise self.gap(self.early.holes[0])
            return None
        self._hand_out(known_key, entry)
        return entry

    def pull(self) -> LogEntry | None:
        """An entry set aside earlier whose turn has come."""
        if self._following is None:
            return None
        key = self._following
        entry = self.early.take(key, self.heights.height(key))
        self._following = None
        if entry is not None:
            self._hand_out(key, entry)
        return entry

    def release(self) -> None:
        """Let `pull` give what is set aside and whose log has been raised by other means."""
        for hole in self.early.holes:
            if min(hole.records) <= self.heights.height(hole.key) + 1:
                self._following = hole.key
                return

    def forget(self, partitions: frozenset[int]) -> None:
        """These partitions are another reader's now."""
        self.heights.drop(partitions)
        self.early.drop(partitions)
        self._following = None

    def gap(self, hole: Hole, hint: str = "") -> LogGap:
        """The error for a hole that nothing will fill."""
        public_key, log_id = split_log_key(hole.key)
        following = min(hole.records)
        entry = hole.records[following]
        return LogGap(
            f"log {public_key.hex()} {log_id}: entry {hole.missing_seq_num} is missing, entry {following} "
            f"came (partition {entry.partition}, offset {entry.offset}){hint}"
        )

    def _hand_out(self, key: bytes, entry: LogEntry) -> None:
        self.heights.raise_to(key, entry.seq_num, entry.partition)
        self._following = key if self.early.waits(key) else None

    def _decode(self, key: bytes | None, value: bytes | None, place: str) -> tuple[bytes, LogRecord] | None:
        try:
            split_log_key(key)
            assert key is not None
            if not self.selection.takes_key(key):
                return None
            record = LogRecord.decode(value)
        except RecordError as error:
            raise RecordError(f"{place}: {error}") from error
        return (key, record) if self.selection.takes_schema(record.schema_id) else None
