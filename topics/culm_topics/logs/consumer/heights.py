"""How far each log has been handed out: what tells a repeat from a new entry, and that from a gap.

One dictionary row a log: about 200 bytes of memory, so 1 GiB holds five million logs. A row also remembers
the partition where the log was last seen, so that the rows of a partition that is given up can be dropped.
"""

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from culm_topics.errors import KafkaSettingsError

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
