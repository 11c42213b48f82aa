"""Decides which packets and syncs count, and writes the marks of an epoch (reference 9.2, rules 3 and 5).

A vector never runs ahead of its data: a run of packets raises its source's entry only from the progress that
it builds on, and a sync only when all its fields are merged. Entries that do not count yet wait here, within
limits. An entry that has waited too long is reported as a gap: its edge's next diff delivers the missing
data. A sync with missing pieces of an operand is reported at once. After an outage of the job, its inputs may
contain the data for which entries wait: the time of the outage does not count, and nothing is a gap before
these records are read. A mark does not cover waiting entries: a job that restarts from `chotki.state` alone
reads them again.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import cbor2

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, KEY_SIZE
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_streaming.chotki.output_records import OutputStage, OutputTopic, StagedRecord
from culm_streaming.chotki.rows import CommitRow, EpochRows, InputTopic, MarkRow, PieceRow, Run
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_streaming.chotki.state import BLOBS, OpenOperands, PieceArrival
from culm_streaming.chotki.step import COMMON_VECTOR
from culm_streaming.stateful.job_state import JobState
from culm_topics.chotki.records import Ends, EpochRecord, VectorRecord, epoch_key
from culm_topics.records import rejection

_NAME: Final = b"E"
_FORMAT: Final = 5
_NOT_COUNTED: Final = -1
_MAX_LOST_SESSIONS: Final = 1_000
GAP: Final = "chotki.gap"


class _Waiting(NamedTuple):
    """An entry that does not count yet: `src` moves from `after` to `pro` once `ends` are merged."""

    src: int
    after: int
    pro: int
    ends: Ends
    origin: bytes
    since_ms: int
    record: tuple[int, int, int] | None
    """Input topic, partition and offset of its first record; None from a checkpoint of format 1."""


@dataclass(slots=True)
class _Counted:
    """The state from epoch to epoch."""

    epoch: int = 0
    vector: dict[int, int] = field(default_factory=lambda: dict(COMMON_VECTOR))
    covered: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in InputTopic])
    waiting: list[_Waiting] = field(default_factory=list)
    pieces: dict[bytes, list[int]] = field(default_factory=dict)
    """Operands whose last piece is missing, by name: partition, offset of the first piece, arrival of the
    last piece, and number of pieces."""
    batch_ms: int | None = None
    """The time of the last micro-batch; None if unknown."""
    lost: dict[bytes, None] = field(default_factory=dict)
    """Sessions with an operand of which pieces are missing: none of their syncs counts."""
    counts_pieces: bool = True
    """Whether an unknown operand has not begun; false for the state of an earlier format."""

    def pack(self) -> bytes:
        lost = list(self.lost)[-_MAX_LOST_SESSIONS:]
        kept = [self.epoch, self.vector, self.covered, self.waiting, self.pieces, self.batch_ms, lost]
        return cbor2.dumps([_FORMAT, *kept])

    @staticmethod
    def unpack(blob: bytes | None) -> "_Counted":
        if blob is None:
            return _Counted()
        # Formats 1 and 2 do not contain pieces, 3 does not contain its last micro-batch, and 4 does not count
        # pieces: whichever piece arrives next is taken for the right one.
        number, epoch, vector, covered, waiting, *rest = cbor2.loads(blob)
        rest[2:] = [dict.fromkeys(lost) for lost in rest[2:]]
        counted = _Counted(epoch, vector, covered, [_unpack_waiting(*packed) for packed in waiting], *rest)
        counted.counts_pieces = number == _FORMAT
        return counted

    def begin_batch(self, batch_ms: int, settings: ChotkiStateSettings) -> None:
        """Exclude an outage of the job: of the time since its last micro-batch at most half a gap counts."""
        since = [entry.since_ms for entry in self.waiting] + [
            since_ms for _, _, since_ms, *_ in self.pieces.values()
        ]
        last_ms = max(since, default=batch_ms) if self.batch_ms is None else self.batch_ms
        stood_still_ms = max(0, batch_ms - last_ms - settings.gap_ms // 2)
        self.batch_ms = batch_ms
        if stood_still_ms:
            self.waiting = [
                entry._replace(since_ms=entry.since_ms + stood_still_ms) for entry in self.waiting
            ]
            for piece in self.pieces.values():
                piece[2] += stood_still_ms

    def take_pieces(
        self, pieces: list[PieceRow], batch_ms: int, read_ms: int, settings: ChotkiStateSettings
    ) -> None:
        """Register pieces of operands.

        An operand whose session ended in its middle is dropped after a while.
        """
        for partition in {piece.partition for piece in pieces}:
            self._take_pieces([piece for piece in pieces if piece.partition == partition], batch_ms, settings)
        kept = [
            (name, numbers) for name, numbers in self.pieces.items() if numbers[2] + settings.gap_ms > read_ms
        ]
        self.pieces = dict(kept[-settings.max_waiting :])

    def _take_pieces(self, pieces: list[PieceRow], batch_ms: int, settings: ChotkiStateSettings) -> None:
        """Register the next pieces of one partition."""
        partition = pieces[0].partition
        known = {name: numbers for name, numbers in self.pieces.items() if numbers[0] == partition}
        counts = {name: numbers[3] if len(numbers) > 3 else _NOT_COUNTED for name, numbers in known.items()}
        operands = OpenOperands(counts, settings.max_open_operands)
        for piece in pieces:
            default = 0 if self.counts_pieces else _NOT_COUNTED
            if piece.piece and operands.counts.get(piece.name, default) == _NOT_COUNTED:
                operands.counts[piece.name] = piece.piece
                known.setdefault(piece.name, [partition, piece.offset, batch_ms, 0])
            if operands.take(piece.name, piece.piece, piece.pieces) is PieceArrival.LOST:
                self.lost[piece.name[KEY_SIZE:]] = None
            elif piece.piece == 0:
                known[piece.name] = [partition, piece.offset, batch_ms, 0]
        for name in known:
            self.pieces.pop(name, None)
        came = {piece.name for piece in pieces}
        for name, count in operands.counts.items():
            _, offset, since_ms, *_ = known[name]
            self.pieces[name] = [partition, offset, batch_ms if name in came else since_ms, count]

    def merged_and_counted(self) -> list[dict[int, int]]:
        """Return, by input topic and partition, the offset before which nothing waits."""
        offsets = [dict(ends) for ends in self.covered]
        for entry in self.waiting:
            if entry.record is not None:
                source, partition, offset = entry.record
                offsets[source][partition] = min(offset, offsets[source].get(partition, offset))
        fields = offsets[InputTopic.FIELDS]
        for partition, offset, *_ in self.pieces.values():
            fields[partition] = min(offset, fields.get(partition, offset))
        return offsets


def _unpack_waiting(
    src: int,
    after: int,
    pro: int,
    ends: list[tuple[int, int]],
    origin: bytes,
    since_ms: int,
    record: list[int] | None = None,
) -> _Waiting:
    position = None if record is None else (record[0], record[1], record[2])
    return _Waiting(
        src, after, pro, tuple((partition, offset) for partition, offset in ends), origin, since_ms, position
    )


def restore_epoch(state: JobState, last: EpochRecord) -> None:
    """Resume after the last complete epoch of a job whose state is lost; waiting entries are read again."""
    covered = [dict(ends) for ends in (last.packets, last.fields, last.commits)]
    state.save(BLOBS, _NAME, _Counted(last.epoch, parse_vector(last.vector), covered).pack())


def count_epoch(
    state: JobState, rows: EpochRows, batch_ms: int, settings: ChotkiStateSettings
) -> Iterator[StagedRecord]:
    """Yield the records of the next epoch: its marks, its vector, and gaps that have waited long enough.

    `batch_ms` is the time of the micro-batch, the same when it runs again.
    """
    counted = _Counted.unpack(state.load(BLOBS, _NAME))
    counted.begin_batch(batch_ms, settings)
    read_ms = _read_ms(rows.marks, batch_ms)
    for source, partition, offset, _ in rows.marks:
        covered = counted.covered[source]
        covered[partition] = max(offset, covered.get(partition, 0))
    counted.take_pieces(rows.pieces, batch_ms, read_ms, settings)
    counted.waiting += _of_runs(rows.runs, batch_ms) + _of_commits(rows.commits, batch_ms)
    merged = counted.covered[InputTopic.FIELDS]
    lost = [entry for entry in counted.waiting if entry.ends and entry.origin in counted.lost]
    lost = [entry for entry in lost if _is_merged(entry, merged)]
    if lost:
        counted.waiting = [entry for entry in counted.waiting if entry not in lost]
    counted.waiting = _raise(counted.vector, counted.waiting, merged)
    waiting, gaps = _without_gaps(counted.waiting, read_ms, settings)
    counted.waiting = waiting
    counted.epoch += 1
    state.save(BLOBS, _NAME, counted.pack())
    for gap in gaps:
        yield StagedRecord(
            OutputStage.FIELDS, OutputTopic.REJECTED, b"", _report(gap, "which has not come"), None
        )
    for gap in lost:
        why = "and pieces of an operand of its session are missing"
        yield StagedRecord(OutputStage.FIELDS, OutputTopic.REJECTED, b"", _report(gap, why), None)
    vector = write_vector(counted.vector)
    packets, fields, commits = (tuple(sorted(ends.items())) for ends in counted.merged_and_counted())
    mark = EpochRecord(counted.epoch, vector, packets, fields, commits).encode()
    for partition in range(settings.shards):
        yield StagedRecord(OutputStage.MARKS, OutputTopic.STATE, epoch_key(partition), mark, partition)
    holding = VectorRecord(vector, counted.epoch, batch_ms).encode()
    yield StagedRecord(OutputStage.TOLD, OutputTopic.VECTORS, GLOBAL_VECTOR_KEY, holding, None)


def _read_ms(marks: list[MarkRow], batch_ms: int) -> int:
    """Return the time up to which all input has been read.

    A partition without a mark has no further input.
    """
    newest: dict[tuple[int, int], int] = {}
    for mark in marks:
        source_partition = (mark.source, mark.partition)
        newest[source_partition] = max(mark.written_ms, newest.get(source_partition, 0))
    return min([batch_ms, *newest.values()])


def _of_runs(runs: list[Run], batch_ms: int) -> list[_Waiting]:
    return [
        _Waiting(
            run.src,
            run.after,
            run.pro,
            (),
            run.origin,
            batch_ms,
            (InputTopic.PACKETS, run.partition, run.offset),
        )
        for run in runs
    ]


def _of_commits(commits: list[CommitRow], batch_ms: int) -> list[_Waiting]:
    entries = []
    for commit in commits:
        after = parse_vector(commit.after)
        position = (InputTopic.COMMITS, commit.partition, commit.offset)
        ends = tuple((partition, offset) for partition, offset in commit.ends)
        entries += [
            _Waiting(src, after.get(src, 0), pro, ends, commit.origin, batch_ms, position)
            for src, pro in parse_vector(commit.vector).items()
        ]
    return entries


def _raise(vector: dict[int, int], waiting: list[_Waiting], merged: Mapping[int, int]) -> list[_Waiting]:
    """Apply all entries that may count, and return the rest in order."""
    rest: list[_Waiting] = []
    by_src: dict[int, list[_Waiting]] = defaultdict(list)
    for entry in waiting:
        if _is_merged(entry, merged):
            by_src[entry.src].append(entry)
        else:
            rest.append(entry)
    for src, entries in by_src.items():
        progress = vector.get(src, 0)
        # Sorted by what they build on: after the first that must wait, no later entry can help it.
        entries.sort(key=lambda entry: entry.after)
        for index, entry in enumerate(entries):
            if entry.after > progress:
                rest += entries[index:]
                break
            progress = vector[src] = max(progress, entry.pro)
    return rest


def _is_merged(entry: _Waiting, merged: Mapping[int, int]) -> bool:
    return all(merged.get(partition, 0) >= offset for partition, offset in entry.ends)


def _without_gaps(
    waiting: list[_Waiting], read_ms: int, settings: ChotkiStateSettings
) -> tuple[list[_Waiting], list[_Waiting]]:
    waiting = sorted(waiting, key=lambda entry: (entry.since_ms, entry[:-1]))
    gaps = [entry for entry in waiting if entry.since_ms + settings.gap_ms <= read_ms]
    kept = waiting[len(gaps) :]
    if (beyond := len(kept) - settings.max_waiting) > 0:
        gaps, kept = gaps + kept[:beyond], kept[beyond:]
    return kept, gaps


def _report(gap: _Waiting, why: str) -> bytes:
    edge, session = gap.origin[:32].hex(), int.from_bytes(gap.origin[32:], "big")
    record = rejection(
        GAP,
        f"source {gap.src:x} up to {gap.pro:x} builds on {gap.after:x}, {why} "
        f"(edge {edge}, session {session})",
    )
    return record.encode()
