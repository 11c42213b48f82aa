"""How far each log has been handed out, and the records that came before their predecessors.

Heights tell a repeat from a new entry, and that from a gap. One dictionary row a log: about 200 bytes of
memory, so 1 GiB holds five million logs. A row also remembers the partition where the log was last seen, so
that the rows of a partition that is given up can be dropped.

Two things put a record before its predecessor without anything being lost. A batch of the streaming job that
fails half-way may leave a hole, which the second run of the batch fills. And after the topic was given more
partitions, a log continues in another partition, which may be read first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from culm_topics.errors import KafkaSettingsError
from culm_topics.logs.consumer.entry import LogEntry

_PARTITION_BITS = 16
_PARTITION_MASK = (1 << _PARTITION_BITS) - 1


class Verdict(Enum):
    """What a record is to the reader of its log."""

    NEXT = auto()
    """The successor of what was handed out last."""
    REPEAT = auto()
    """Handed out before."""
    EARLY = auto()
    """Its predecessor has not come yet."""


class LogHeights:
    """The highest sequence number handed out of each log."""

    def __init__(self, *, remember_changes: bool = False) -> None:
        self._rows: dict[bytes, int] = {}
        self._changed: set[bytes] | None = set() if remember_changes else None

    def __len__(self) -> int:
        return len(self._rows)

    def log_keys(self) -> Iterator[bytes]:
        """The keys of the logs of which something was handed out."""
        return iter(self._rows)

    def height(self, key: bytes) -> int:
        """The log's height; 0 when nothing of it was handed out."""
        return self._rows.get(key, 0) >> _PARTITION_BITS

    def judge(self, key: bytes, seq_num: int) -> Verdict:
        """What a record of this sequence number is."""
        height = self._rows.get(key, 0) >> _PARTITION_BITS
        if seq_num == height + 1:
            return Verdict.NEXT
        return Verdict.REPEAT if seq_num <= height else Verdict.EARLY

    def raise_to(self, key: bytes, seq_num: int, partition: int) -> None:
        """The log has been handed out up to `seq_num`, last seen in `partition`; a height never sinks.

        Raises `KafkaSettingsError` where the topic has more partitions than a row can tell apart.
        """
        if not 0 <= partition <= _PARTITION_MASK:
            raise KafkaSettingsError(f"partition {partition}: at most {_PARTITION_MASK + 1} can be read")
        if seq_num > self._rows.get(key, 0) >> _PARTITION_BITS:
            self._rows[key] = seq_num << _PARTITION_BITS | partition
            if self._changed is not None:
                self._changed.add(key)

    def load(self, rows: Iterable[tuple[bytes, int]], partition: int) -> None:
        """Take over (log key, height) rows that are on disk already."""
        for key, seq_num in rows:
            if seq_num > self._rows.get(key, 0) >> _PARTITION_BITS:
                self._rows[key] = seq_num << _PARTITION_BITS | partition

    def change_all(self) -> None:
        """Count every row as changed: what was on disk is gone."""
        if self._changed is not None:
            self._changed.update(self._rows)

    def drop(self, partitions: Iterable[int]) -> None:
        """Forget the logs last seen in these partitions: another reader has them now."""
        gone = frozenset(partitions)
        self._rows = {key: row for key, row in self._rows.items() if row & _PARTITION_MASK not in gone}
        if self._changed is not None:
            self._changed.intersection_update(self._rows)

    def take_changes(self) -> list[tuple[bytes, int, int]]:
        """The rows changed since the last call, as (log key, height, partition)."""
        if not self._changed:
            return []
        changes = [
            (key, self._rows[key] >> _PARTITION_BITS, self._rows[key] & _PARTITION_MASK)
            for key in self._changed
        ]
        self._changed.clear()
        return changes


MAX_EARLY_RECORDS = 10_000
"""Early records kept at once, over all logs; one more and the oldest hole counts as a gap."""


@dataclass(slots=True)
class Hole:
    """A log's missing predecessor: what is kept behind it, and until when it may still come."""

    key: bytes
    missing_seq_num: int
    deadline_s: float
    records: dict[int, LogEntry] = field(default_factory=dict)
    ends: dict[int, int] | None = None
    """Per partition the end that must be read before the hole counts as a gap; None: not asked yet."""

    def is_gap(self, positions: Mapping[int, int], now_s: float) -> bool:
        """Whether its time is up, and all that was in the topic when it showed has been read."""
        if self.ends is None or now_s < self.deadline_s:
            return False
        return all(position >= self.ends.get(partition, 0) for partition, position in positions.items())


class EarlyRecords:
    """The records kept, by log and sequence number."""

    def __init__(self) -> None:
        self._holes: dict[bytes, Hole] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def holes(self) -> tuple[Hole, ...]:
        """Every open hole, the oldest first."""
        return tuple(self._holes.values())

    def keep(self, entry: LogEntry, height: int, deadline_s: float) -> None:
        """Keep the entry, whose log stands at `height`, until its predecessors come."""
        key = entry.key
        hole = self._holes.get(key)
        if hole is None:
            hole = self._holes[key] = Hole(key, height + 1, deadline_s)
        if entry.seq_num not in hole.records:
            hole.records[entry.seq_num] = entry
            self._count += 1

    def waits(self, key: bytes) -> bool:
        """Whether something of this log is kept."""
        return key in self._holes

    def numbers(self, key: bytes) -> tuple[int, ...]:
        """What of this log is kept, by sequence number."""
        hole = self._holes.get(key)
        return tuple(hole.records) if hole is not None else ()

    def take(self, key: bytes, height: int) -> LogEntry | None:
        """The entry that follows `height`, when it is here; what is no longer needed is let go."""
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
        """Let go of what is kept behind a hole that nothing will fill."""
        del self._holes[hole.key]
        self._count -= len(hole.records)

    def first_offset(self, partition: int) -> int | None:
        """The lowest offset of this partition that is kept: nothing may be committed beyond it."""
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
        """Let go of what came from these partitions: another reader has them now."""
        for key, hole in list(self._holes.items()):
            for seq_num, entry in list(hole.records.items()):
                if entry.partition in partitions:
                    del hole.records[seq_num]
                    self._count -= 1
            if not hole.records:
                del self._holes[key]
