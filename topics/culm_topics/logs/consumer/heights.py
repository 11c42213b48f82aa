"""The heights up to which logs have been handed out, and records that arrived before their predecessors.

Heights distinguish a repeat from a new entry, and a new entry from a gap. One dictionary row per log: about
200 bytes of memory, so 1 GiB holds five million logs. A row also remembers the partition in which the log was
last seen, so that the rows of a partition that is given up can be dropped.

A record can precede its predecessor in two cases without any loss. A batch of the streaming job that fails
half-way may leave a hole, which the second run of the batch fills. And after the topic was given more
partitions, a log continues in another partition, which may be read first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from culm_topics.errors import KafkaSettingsError
from culm_topics.logs.consumer.entry import LogEntry

_PARTITION_BITS = 16
_PARTITION_MASK = (1 << _PARTITION_BITS) - 1


class SequenceResult(Enum):
    """Relation of a record to its log's height."""

    NEXT = auto()
    """The successor of the last entry handed out."""
    REPEAT = auto()
    """Handed out before."""
    EARLY = auto()
    """Its predecessor has not arrived yet."""


class LogHeights:
    """The highest sequence number handed out of each log."""

    def __init__(self, *, remember_changes: bool = False) -> None:
        self._rows: dict[bytes, int] = {}
        self._changed: set[bytes] | None = set() if remember_changes else None

    def __len__(self) -> int:
        return len(self._rows)

    def log_keys(self) -> Iterator[bytes]:
        """Iterate over the keys of the logs of which something was handed out."""
        return iter(self._rows)

    def height(self, key: bytes) -> int:
        """Return the log's height; 0 if nothing of it was handed out."""
        return self._rows.get(key, 0) >> _PARTITION_BITS

    def judge(self, key: bytes, seq_num: int) -> SequenceResult:
        """Classify a record with this sequence number."""
        height = self._rows.get(key, 0) >> _PARTITION_BITS
        if seq_num == height + 1:
            return SequenceResult.NEXT
        return SequenceResult.REPEAT if seq_num <= height else SequenceResult.EARLY

    def raise_to(self, key: bytes, seq_num: int, partition: int) -> None:
        """Raise the log's height to `seq_num`, last seen in `partition`; a height never sinks.

        Raises `KafkaSettingsError` if the topic has more partitions than a row can distinguish.
        """
        if not 0 <= partition <= _PARTITION_MASK:
            raise KafkaSettingsError(f"partition {partition}: at most {_PARTITION_MASK + 1} can be read")
        if seq_num > self._rows.get(key, 0) >> _PARTITION_BITS:
            self._rows[key] = seq_num << _PARTITION_BITS | partition
            if self._changed is not None:
                self._changed.add(key)

    def load(self, rows: Iterable[tuple[bytes, int]], partition: int) -> None:
        """Load (log key, height) rows that are on disk already."""
        for key, seq_num in rows:
            if seq_num > self._rows.get(key, 0) >> _PARTITION_BITS:
                self._rows[key] = seq_num << _PARTITION_BITS | partition

    def change_all(self) -> None:
        """Mark every row as changed: the copy on disk is gone."""
        if self._changed is not None:
            self._changed.update(self._rows)

    def drop(self, partitions: Iterable[int]) -> None:
        """Forget the logs last seen in these partitions: another reader has them now."""
        gone = frozenset(partitions)
        self._rows = {key: row for key, row in self._rows.items() if row & _PARTITION_MASK not in gone}
        if self._changed is not None:
            self._changed.intersection_update(self._rows)

    def changes(self) -> list[tuple[bytes, int, int]]:
        """Return the rows changed since `forget_changes`, as (log key, height, partition)."""
        if not self._changed:
            return []
        return [
            (key, self._rows[key] >> _PARTITION_BITS, self._rows[key] & _PARTITION_MASK)
            for key in self._changed
        ]

    def forget_changes(self) -> None:
        """Note that the copy on disk has all rows."""
        if self._changed is not None:
            self._changed.clear()


MAX_EARLY_RECORDS = 10_000
"""Limit of early records over all logs; beyond it the oldest hole counts as a gap."""


@dataclass(slots=True)
class Hole:
    """A log's missing predecessor: the records kept behind it, and the deadline for its arrival."""

    key: bytes
    missing_seq_num: int
    deadline_s: float
    records: dict[int, LogEntry] = field(default_factory=dict)
    ends: dict[int, int] | None = None
    """The end by partition that must be read before the hole counts as a gap; None: not queried yet."""

    def is_gap(self, positions: Mapping[int, int], now_s: float) -> bool:
        """Whether the deadline has passed and the topic, as it was when the hole appeared, has been read."""
        if self.ends is None or now_s < self.deadline_s:
            return False
        return all(position >= self.ends.get(partition, 0) for partition, position in positions.items())


class EarlyRecords:
    """The kept records, by log and sequence number."""

    def __init__(self) -> None:
        self._holes: dict[bytes, Hole] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def holes(self) -> tuple[Hole, ...]:
        """Every open hole, the oldest first."""
        return tuple(self._holes.values())

    def keep(self, key: bytes, entry: LogEntry, height: int, deadline_s: float) -> None:
        """Keep the entry, whose log is at `height`, until its predecessors arrive."""
        hole = self._holes.get(key)
        if hole is None:
            hole = self._holes[key] = Hole(key, height + 1, deadline_s)
        if entry.seq_num not in hole.records:
            hole.records[entry.seq_num] = entry
            self._count += 1

    def waits(self, key: bytes) -> bool:
        """Whether records of this log are kept."""
        return key in self._holes

    def numbers(self, key: bytes) -> tuple[int, ...]:
        """Return the sequence numbers of this log's kept records."""
        hole = self._holes.get(key)
        return tuple(hole.records) if hole is not None else ()

    def take(self, key: bytes, height: int) -> LogEntry | None:
        """Return the entry that follows `height`, or None; drops records that are no longer needed."""
        hole = self._holes.get(key)
        if hole is None:
            return None
        for seq_num in [number for number in hole.records if number <= height]:
            del hole.records[seq_num]
            self._count -= 1
        entry = hole.records.pop(height + 1, None)
        if entry is not None:
            self._count -= 1
        hole.missing_seq_num = height + (2 if entry is not None else 1)
        if not hole.records:
            del self._holes[key]
        return entry

    def abandon(self, hole: Hole) -> None:
        """Drop the records kept behind a hole that will not be filled."""
        del self._holes[hole.key]
        self._count -= len(hole.records)

    def first_offset(self, partition: int) -> int | None:
        """Return the lowest kept offset of this partition: nothing may be committed beyond it."""
        return min(
            (
                entry.offset
                for hole in self._holes.values()
                for entry in hole.records.values()
                if entry.partition == partition
            ),
            default=None,
        )

    def drop(self, partitions: frozenset[int]) -> None:
        """Drop the records from these partitions: another reader has them now."""
        for key, hole in list(self._holes.items()):
            for seq_num, entry in list(hole.records.items()):
                if entry.partition in partitions:
                    del hole.records[seq_num]
                    self._count -= 1
            if not hole.records:
                del self._holes[key]
