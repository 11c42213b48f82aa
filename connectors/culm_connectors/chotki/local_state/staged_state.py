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

        Raises RecordError for a mark that is malformed or belongs to another partition, and for malformed
        pieces of a field.
        """
        place = self._partitions[partition]
        if place.first_offset is None:
            place.first_offset = offset
        if not is_epoch_key(key):
            whole = place.joiner.take(offset, key, value)
            if whole is None:
                return
            key, value = whole
            size = len(key) + len(value) + _RECORD_BYTES
            place.records.append((key, value))
            place.staged_bytes += size
            self.staged_bytes += size
            return
        if key != epoch_key(partition):
            raise RecordError(f"the mark {key.hex()} stands in partition {partition}")
        mark = EpochRecord.decode(value)
        if place.marks and mark.epoch < place.marks[-1].record.epoch:
            # The job has restarted from an older state, so the marks of its former run no longer count.
            place.marks.clear()
        place.joiner.end_epoch()
        place.marks.append(_Mark(mark, len(place.records), place.staged_bytes, offset + 1))

    def is_applied(self, partition: int, end: int) -> bool:
        """Whether nothing before this offset of the partition is staged."""
        place = self._partitions[partition]
        return (place.first_offset is None or place.first_offset >= end) and place.resume_at(end) == end

    def resume_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return the offsets to continue from once everything that is staged is applied, by partition."""
        return {number: self._partitions[number].resume_at(offset) for number, offset in positions.items()}

    @property
    def lacks_pieces(self) -> bool:
        """Whether a field is not staged because pieces of it are missing."""
        return any(place.joiner.incomplete for place in self._partitions.values())

    def take(self) -> WholeEpoch | None:
        """Remove and return the highest complete epoch, or None if there is no new one."""
        common = set.intersection(
            *({mark.record.epoch for mark in place.marks} for place in self._partitions.values())
        )
        if not common:
            return None
        epoch = max(common)
        ends = {
            partition: max(
                (one for one in place.marks if one.record.epoch == epoch), key=lambda one: one.offset
            )
            for partition, place in self._partitions.items()
        }
        if all(end.offset < 0 for end in ends.values()):
            return None
        records: list[Record] = []
        for partition, end in ends.items():
            records += self._take_until(self._partitions[partition], end)
        offsets = {partition: end.offset for partition, end in ends.items() if end.offset >= 0}
        return WholeEpoch(next(iter(ends.values())).record, records, self.resume_offsets(offsets))

    def _take_until(self, place: _Partition, end: _Mark) -> list[Record]:
        taken, place.records = place.records[: end.staged], place.records[end.staged :]
        later = place.marks[place.marks.index(end) + 1 :]
        if end.offset >= 0:
            place.first_offset = end.offset if place.records or later else None
        place.staged_bytes -= end.staged_bytes
        self.staged_bytes -= end.staged_bytes
        place.marks = [_Mark(end.record, 0, 0, -1)] + [
            one._replace(staged=one.staged - end.staged, staged_bytes=one.staged_bytes - end.staged_bytes)
            for one in later
        ]
        return taken

    def take_all(self) -> tuple[list[Record], dict[int, EpochRecord | None]]:
        """Remove and return all staged records, whether or not their epoch is complete.

        Also returns, by partition, the mark that is the last record read, or None.
        """
        records: list[Record] = []
        marks: dict[int, EpochRecord | None] = {}
        for partition, place in self._partitions.items():
            last = place.marks[-1] if place.marks else None
            is_last = last is not None and last.staged == len(place.records)
            marks[partition] = last.record if last is not None and is_last else None
            records += place.records
            place.records, place.staged_bytes, place.first_offset = [], 0, None
            place.marks = [_Mark(last.record, 0, 0, -1)] if last is not None and is_last else []
        self.staged_bytes = 0
        return records, marks
