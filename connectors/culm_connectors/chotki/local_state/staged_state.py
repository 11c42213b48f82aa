"""Records of `chotki.state` that wait until their epoch is complete (reference 9.2, rule 6).

In each partition a mark follows all records of its epoch, so an epoch is complete once its mark was read in
every partition. Compaction may have removed older marks, and a repeated micro-batch writes its records and
its mark again. So the highest epoch counts whose mark all partitions have, up to its last mark in each.

A field in pieces is staged once all of its pieces are read. If compaction has removed pieces, a later value
of the field follows. Until then the partition is not applied up to there, and reading continues from there
after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from culm_topics.chotki.records import EpochRecord, FieldJoiner, epoch_key, is_epoch_key
from culm_topics.errors import RecordError

_RECORD_BYTES: Final = 160
"""Memory of a staged record besides its key and value."""

Record = tuple[bytes, bytes]


class WholeEpoch(NamedTuple):
    """The staged records of an epoch and of earlier ones, and by partition the offset to continue from."""

    mark: EpochRecord
    records: list[Record]
    offsets: Mapping[int, int]


class _Mark(NamedTuple):
    """A mark: the number and bytes of the staged records before it, and the offset after it."""

    record: EpochRecord
    staged: int
    staged_bytes: int
    offset: int


@dataclass(slots=True)
class _Partition:
    records: list[Record] = field(default_factory=list)
    first_offset: int | None = None
    """Offset of the first staged record or mark; None if nothing is staged."""
    staged_bytes: int = 0
    marks: list[_Mark] = field(default_factory=list)
    joiner: FieldJoiner = field(default_factory=FieldJoiner)

    def resume_at(self, offset: int) -> int:
        """Return the offset to continue from if all before `offset` is applied, except incomplete fields."""
        held_from = self.joiner.held_from
        return offset if held_from is None else min(offset, held_from)


class StagedState:
    """Records beyond the state of the store, by partition.

    `marks`: by partition, the mark directly before the offset at which reading begins, if there is one.
    """

    def __init__(self, partitions: Iterable[int], marks: Mapping[int, EpochRecord]) -> None:
        self._partitions = {partition: _Partition() for partition in partitions}
        assert self._partitions, "a topic has partitions"
        for partition, mark in marks.items():
            if partition in self._partitions:
                self._partitions[partition].marks.append(_Mark(mark, 0, 0, -1))
        self.staged_bytes = 0
        """Memory of all staged records, in bytes."""

    def add(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        """Stage the next record of a partition. A tombstone has an empty value.

        Raises `RecordError` for a mark that is malformed or belongs to another partition, and for malformed
        pieces of a field.
        """
        staged = self._partitions[partition]
        if staged.first_offset is None:
            staged.first_offset = offset
        if not is_epoch_key(key):
            whole = staged.joiner.take(offset, key, value)
            if whole is None:
                return
            key, value = whole
            size = len(key) + len(value) + _RECORD_BYTES
            staged.records.append((key, value))
            staged.staged_bytes += size
            self.staged_bytes += size
            return
        if key != epoch_key(partition):
            raise RecordError(f"the mark {key.hex()} stands in partition {partition}")
        mark = EpochRecord.decode(value)
        if staged.marks and mark.epoch < staged.marks[-1].record.epoch:
            # The job has restarted from an older state, so the marks of its former run no longer count.
            staged.marks.clear()
        staged.joiner.end_epoch()
        staged.marks.append(_Mark(mark, len(staged.records), staged.staged_bytes, offset + 1))

    def is_applied(self, partition: int, end: int) -> bool:
        """Whether nothing before this offset of the partition is staged."""
        staged = self._partitions[partition]
        return (staged.first_offset is None or staged.first_offset >= end) and staged.resume_at(end) == end

    def resume_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return the offsets to continue from once everything that is staged is applied, by partition."""
        return {number: self._partitions[number].resume_at(offset) for number, offset in positions.items()}

    @property
    def is_missing_pieces(self) -> bool:
        """Whether a field is not staged because pieces of it are missing."""
        return any(staged.joiner.incomplete for staged in self._partitions.values())

    def take(self) -> WholeEpoch | None:
        """Remove and return the highest complete epoch, or None if there is no new one."""
        common = set.intersection(
            *({mark.record.epoch for mark in staged.marks} for staged in self._partitions.values())
        )
        if not common:
            return None
        epoch = max(common)
        ends = {
            partition: max(
                (mark for mark in staged.marks if mark.record.epoch == epoch), key=lambda mark: mark.offset
            )
            for partition, staged in self._partitions.items()
        }
        if all(end.offset < 0 for end in ends.values()):
            return None
        records: list[Record] = []
        for partition, end in ends.items():
            records += self._take_until(self._partitions[partition], end)
        offsets = {partition: end.offset for partition, end in ends.items() if end.offset >= 0}
        return WholeEpoch(next(iter(ends.values())).record, records, self.resume_offsets(offsets))

    def _take_until(self, staged: _Partition, end: _Mark) -> list[Record]:
        taken, staged.records = staged.records[: end.staged], staged.records[end.staged :]
        later_marks = staged.marks[staged.marks.index(end) + 1 :]
        if end.offset >= 0:
            staged.first_offset = end.offset if staged.records or later_marks else None
        staged.staged_bytes -= end.staged_bytes
        self.staged_bytes -= end.staged_bytes
        staged.marks = [_Mark(end.record, 0, 0, -1)] + [
            mark._replace(staged=mark.staged - end.staged, staged_bytes=mark.staged_bytes - end.staged_bytes)
            for mark in later_marks
        ]
        return taken

    def take_all(self) -> tuple[list[Record], dict[int, EpochRecord | None]]:
        """Remove and return all staged records, whether or not their epoch is complete.

        Also returns, by partition, the mark that is the last record read, or None.
        """
        records: list[Record] = []
        marks: dict[int, EpochRecord | None] = {}
        for partition, staged in self._partitions.items():
            last = staged.marks[-1] if staged.marks else None
            is_last = last is not None and last.staged == len(staged.records)
            marks[partition] = last.record if last is not None and is_last else None
            records += staged.records
            staged.records, staged.staged_bytes, staged.first_offset = [], 0, None
            staged.marks = [_Mark(last.record, 0, 0, -1)] if last is not None and is_last else []
        self.staged_bytes = 0
        return records, marks
