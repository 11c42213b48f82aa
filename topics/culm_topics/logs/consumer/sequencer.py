"""The order of the logs: accepts records in the topic's order, hands out entries in the order of their log.

There is no Kafka and no clock here: how a record is handled depends on the heights and on early records. A
log whose missing entry does not arrive is set aside: its later records are dropped until it arrives.
"""

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import LogGap, RecordError
from culm_topics.logs.consumer.entry import LogEntry, Selection
from culm_topics.logs.consumer.heights import (
    MAX_EARLY_RECORDS,
    EarlyRecords,
    Hole,
    LogHeights,
    SequenceResult,
)
from culm_topics.logs.consumer.problems import LogProblem, Problems
from culm_topics.logs.consumer.sparse import LogCoverage, LogPosition, SparseEntries, log_position
from culm_topics.logs.records import LogRecord
from culm_topics.records import split_flavoured_log_key


class Sequencer:
    """Drops repeats, keeps early records, hands out the rest; malformed records and gaps go to `problems`."""

    def __init__(
        self,
        selection: Selection,
        problems: Problems,
        *,
        gap_wait_seconds: float,
        remember_changes: bool,
        sparse: bool = False,
    ) -> None:
        self.selection = selection
        self.problems = problems
        self.heights = LogHeights(remember_changes=remember_changes)
        self.early = EarlyRecords()
        self.sparse = SparseEntries(self.heights) if sparse else None
        self._gap_wait_seconds = gap_wait_seconds
        self._following: bytes | None = None

    def learn(
        self, key: bytes | None, value: bytes | None, *, partition: int, offset: int, in_sequence: bool
    ) -> None:
        """Raise a log's height by a record that the group has handed out.

        `in_sequence`: logs were set aside in this partition, so records after a gap were not handed out.
        """
        decoded = self._decode(key, value, partition, offset)
        if decoded is None:
            return
        known_key, record, _, _ = decoded
        if in_sequence and self.heights.judge(known_key, record.seq_num) is SequenceResult.EARLY:
            if not self._is_set_aside(known_key):
                self._note_gap(known_key, record.seq_num, partition, offset)
            return
        self.heights.raise_to(known_key, record.seq_num, partition)
        self.problems.solved(known_key)

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
    ) -> LogEntry | None:
        """Return the entry to hand out for this record, if any.

        Afterwards call `pull` until it returns None.
        """
        decoded = self._decode(key, value, partition, offset)
        if decoded is None:
            return None
        known_key, record, flavour, (public_key, log_id) = decoded
        verdict = self.heights.judge(known_key, record.seq_num)
        if verdict is SequenceResult.REPEAT:
            return None
        if verdict is SequenceResult.EARLY and learns and not self.early.waits(known_key):
            height = self.heights.height(known_key)
            if height == 0:
                verdict = SequenceResult.NEXT
        if verdict is SequenceResult.EARLY and self._is_set_aside(known_key):
            return None
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
            flavour,
        )
        if verdict is SequenceResult.EARLY:
            self.early.keep(known_key, entry, self.heights.height(known_key), now_s + self._gap_wait_seconds)
            if len(self.early) > MAX_EARLY_RECORDS:
                self.set_aside(self.early.holes[0])
            return None
        self._hand_out(known_key, entry)
        return entry

    def pull(self) -> LogEntry | None:
        """Return the next early entry whose predecessor has been handed out, or None."""
        if self._following is None:
            return None
        key = self._following
        entry = self.early.take(key, self.heights.height(key))
        self._following = None
        if entry is not None:
            self._hand_out(key, entry)
        return entry

    def release(self) -> None:
        """Let `pull` return an early entry whose log has been raised by other means."""
        for hole in self.early.holes:
            if min(hole.records) <= self.heights.height(hole.key) + 1:
                self._following = hole.key
                return

    def coverage(self, key: bytes) -> LogCoverage:
        """Return what was seen of the log: up to its first gap, and beyond it."""
        if self.sparse is not None:
            return self.sparse.coverage(key)
        return LogCoverage(self.heights.height(key))

    def log_keys(self) -> tuple[bytes, ...]:
        """Return the keys of all logs of which anything was seen, each once."""
        beside = dict.fromkeys(self.sparse.log_keys() if self.sparse is not None else ())
        beside.update((hole.key, None) for hole in self.early.holes)
        beside.update(dict.fromkeys(self.problems.set_aside))
        height = self.heights.height
        return (*self.heights.log_keys(), *(key for key in beside if not height(key)))

    def position(self, key: bytes) -> LogPosition:
        """Return the reader's position in a log."""
        flavour, log = split_flavoured_log_key(key)
        problem = self.problems.set_aside.get(key)
        return log_position(
            log,
            flavour,
            self.coverage(key),
            self.early.numbers(key),
            problem.missing_seq_num if problem is not None else None,
        )

    def forget(self, partitions: frozenset[int]) -> None:
        """Drop the state of partitions that another reader holds now."""
        self.heights.drop(partitions)
        self.early.drop(partitions)
        if self.sparse is not None:
            self.sparse.drop(partitions)
        self._following = None

    def set_aside(self, hole: Hole, hint: str = "") -> None:
        """Set aside the log of a hole that will not be filled, until the missing entry arrives."""
        first = hole.records[min(hole.records)]
        self.early.abandon(hole)
        self._note_gap(hole.key, first.seq_num, first.partition, first.offset, hint)

    def _note_gap(self, key: bytes, seq_num: int, partition: int, offset: int, hint: str = "") -> None:
        flavour, (public_key, log_id) = split_flavoured_log_key(key)
        missing = self.heights.height(key) + 1
        error = LogGap(
            f"log {public_key.hex()} {log_id}: entry {missing} is missing, entry {seq_num} came "
            f"(partition {partition}, offset {offset}){hint}"
        )
        self.problems.add(LogProblem(error, partition, offset, (public_key, log_id), missing, flavour), key)

    def _is_set_aside(self, key: bytes) -> bool:
        return key in self.problems.set_aside

    def _hand_out(self, key: bytes, entry: LogEntry) -> None:
        self.heights.raise_to(key, entry.seq_num, entry.partition)
        self._following = key if self.early.waits(key) else None
        if self.problems.set_aside:
            self.problems.solved(key)
        if self.sparse is not None:
            self.sparse.reached(key, entry.seq_num)

    def _decode(
        self, key: bytes | None, value: bytes | None, partition: int, offset: int
    ) -> tuple[bytes, LogRecord, HashFlavour, LogKey] | None:
        try:
            flavour, log = split_flavoured_log_key(key)
            assert key is not None
            if not self.selection.takes_key(key):
                return None
            record = LogRecord.decode(value)
            if len(record.entry_hash) != flavour.size:
                raise RecordError(f"entry_hash has {len(record.entry_hash)} bytes in a {flavour.name} log")
        except RecordError as error:
            placed = RecordError(f"logs, partition {partition} offset {offset}: {error}")
            self.problems.add(LogProblem(placed, partition, offset))
            return None
        return (key, record, flavour, log) if self.selection.takes_schema(record.schema_id) else None
