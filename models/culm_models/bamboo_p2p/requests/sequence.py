"""The sequence of pieces of a request; a piece is an entry's metadata or its payload (R30 to R33, R52).

A sequence consists of the metadata of the lower certificate pool from `lower` up to the start, the metadata
and payload of each entry of the range, and the metadata of the upper pool up to `upper`. Pieces are counted
from 0. Ranges may have 2**64 entries, so everything is computed. Only pools and sparse paths, with some
hundred numbers, are lists.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from culm_models.bamboo.certificate_pool import MAX_SEQ_NUM, lower_pool, shortest_path, upper_pool
from culm_models.bamboo.range_set import RangeSet


class LogPiece(NamedTuple):
    """A piece: the metadata of entry `seq_num`, or its payload."""

    seq_num: int
    is_payload: bool


class Sequence:
    """The pieces of a request. If `end` is None, the range is open, up to the largest sequence number."""

    __slots__ = (
        "_entries_before",
        "_lower",
        "_path",
        "_per_entry",
        "_range_end",
        "_upper",
        "end",
        "offset",
        "size",
        "start",
    )

    def __init__(
        self,
        start: int,
        *,
        lower: int | None,
        end: int | None,
        upper: int | None,
        offset: int | None,
        payload_only: bool,
        sparse: bool,
    ) -> None:
        last = MAX_SEQ_NUM if end is None else end
        self.start, self.end, self.offset = start, end, offset
        self._path = shortest_path(start, last) if sparse else None
        with_metadata = not payload_only
        self._per_entry = 2 if with_metadata else 1
        self._lower = (
            [number for number in reversed(lower_pool(start)) if lower <= number < start]
            if with_metadata and lower is not None
            else []
        )
        self._upper = (
            [number for number in upper_pool(end) if end < number <= upper]
            if with_metadata and end is not None and upper is not None
            else []
        )
        # With an offset, the start's metadata is not a piece, so the first entry has one piece less.
        self._entries_before = len(self._lower) - (1 if offset is not None and with_metadata else 0)
        entries = len(self._path) if self._path is not None else last - start + 1
        self._range_end = self._entries_before + entries * self._per_entry
        self.size = self._range_end + len(self._upper)

    @property
    def is_open(self) -> bool:
        """Whether the range has no end."""
        return self.end is None

    def piece(self, index: int) -> LogPiece:
        """Return the piece at `index`, which must be below `size`."""
        if self._path is None and len(self._lower) <= index < self._range_end:
            within = index - self._entries_before
            if self._per_entry == 1:
                return LogPiece(self.start + within, True)
            return LogPiece(self.start + (within >> 1), within & 1 == 1)
        if index < len(self._lower):
            return LogPiece(self._lower[index], False)
        within = index - self._entries_before
        entry, kind = divmod(within, self._per_entry)
        number = self._number(entry)
        if number is None:
            return LogPiece(self._upper[index - (self.size - len(self._upper))], False)
        return LogPiece(number, kind == self._per_entry - 1)

    def entries_from(self, index: int) -> tuple[int, int] | None:
        """Return the entry whose metadata is the piece at `index`, and the last entry of the range.

        Metadata and payload of all entries between them follow. Returns None if the piece at `index` is
        another one, or if not all pieces of these entries follow.
        """
        if self._path is not None or self._per_entry == 1 or not len(self._lower) <= index < self._range_end:
            return None
        within = index - self._entries_before
        return None if within & 1 else (self.start + (within >> 1), self._last)

    def metadata_index(self, seq_num: int) -> int | None:
        """Return the index of an entry's metadata, or None if it is not a piece."""
        position = bisect_left(self._lower, seq_num)
        if position < len(self._lower) and self._lower[position] == seq_num:
            return position
        position = bisect_left(self._upper, seq_num)
        if position < len(self._upper) and self._upper[position] == seq_num:
            return self.size - len(self._upper) + position
        entry = self._entry(seq_num)
        if entry is None or self._per_entry == 1:
            return None
        index = self._entries_before + entry * 2
        return index if index >= len(self._lower) else None

    def payload_index(self, seq_num: int) -> int | None:
        """Return the index of an entry's payload, or None if it is not a piece."""
        entry = self._entry(seq_num)
        return None if entry is None else self._entries_before + (entry + 1) * self._per_entry - 1

    def first_from(self, seq_num: int) -> int:
        """Return the index of the first piece of an entry from `seq_num` on; `size` if there is none."""
        index = bisect_left(self._lower, seq_num)
        return index if index < len(self._lower) else self.behind(seq_num - 1)

    def first_beyond(self, seq_num: int) -> int:
        """Return the index of the first piece of the range that belongs to an entry above `seq_num`."""
        if self._path is not None:
            entry = bisect_left(self._path, seq_num + 1)
        else:
            entry = max(0, min(seq_num, self._last) - self.start + 1)
        return max(len(self._lower), self._entries_before + entry * self._per_entry)

    def behind(self, seq_num: int) -> int:
        """Return the index after all pieces of the entries up to `seq_num`, which is not below the start."""
        return self.first_beyond(seq_num) if seq_num <= self._last else self.first_upper_beyond(seq_num)

    def first_upper_beyond(self, seq_num: int) -> int:
        """Return the index of the first piece of the upper pool above `seq_num`; `size` if there is none."""
        return self.size - len(self._upper) + bisect_left(self._upper, seq_num + 1)

    def metadata_runs(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the entries with metadata from index `first` up to `end`, as first and last numbers."""
        pools = (*self._lower, *self._upper, *(self._path or ()))
        runs = [
            (number, number)
            for number in pools
            if (index := self.metadata_index(number)) is not None and first <= index < end
        ]
        if self._path is None and self._per_entry == 2:
            low = max(first, len(self._lower))
            high = min(end, self.size - len(self._upper)) - 1
            if low <= high:
                begin, last = self.piece(low), self.piece(high)
                runs.append((begin.seq_num + (1 if begin.is_payload else 0), last.seq_num))
        return [(begin, last) for begin, last in runs if begin <= last]

    def payload_runs(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the entries with a payload from index `first` up to `end`, as first and last numbers."""
        if self._path is not None:
            return [
                (number, number)
                for number in self._path
                if (index := self.payload_index(number)) is not None and first <= index < end
            ]
        low, high = max(first, len(self._lower)), min(end, self._range_end) - 1
        if low > high:
            return []
        last = self.piece(high)
        run = (self.piece(low).seq_num, last.seq_num - (0 if last.is_payload else 1))
        return [run] if run[0] <= run[1] else []

    def follows_its_backlink(self, seq_num: int) -> bool:
        """Whether the previous entry's metadata is a piece, so that the backlink is not sent (R52)."""
        return self.metadata_index(seq_num - 1) is not None

    @property
    def _last(self) -> int:
        return MAX_SEQ_NUM if self.end is None else self.end

    def _number(self, entry: int) -> int | None:
        if self._path is not None:
            return self._path[entry] if entry < len(self._path) else None
        return self.start + entry if entry <= self._last - self.start else None

    def _entry(self, seq_num: int) -> int | None:
        if self._path is None:
            return seq_num - self.start if self.start <= seq_num <= self._last else None
        index = bisect_left(self._path, seq_num)
        return index if index < len(self._path) and self._path[index] == seq_num else None


SKIPPED_RUNS_MAX: Final = 1_024


class PassedPieces:
    """The pieces that the other end has passed. Uses at most about 50 KB, whatever the other end sends.

    Metadata cannot be skipped. All pieces before the other end's cursor were therefore passed by data or by
    notify, except for skipped payloads, which it may be missing. Only these are stored, by entry, so that
    consecutive skipped payloads are one run. An end that skips every second payload of a long range would
    make a run per skip, so beyond a limit the last runs are joined, and the payloads between them count as
    not passed. Sending these again is legal (R47), and no payload that the other end is missing is withheld.
    """

    __slots__ = ("_end", "_skipped")

    def __init__(self) -> None:
        self._end = 0
        self._skipped = RangeSet()

    def pass_to(self, end: int) -> None:
        """Record that valid data or a notify moved the other end to piece `end`."""
        self._end = end

    def skip(self, index: int, seq_num: int) -> None:
        """Record that the other end skipped the payload of an entry, which is the piece at `index`."""
        self._end = index + 1
        self._skipped.add_coarsely(seq_num, seq_num + 1, SKIPPED_RUNS_MAX)

    def end_of_run(self, index: int, sequence: Sequence) -> int:
        """Return the first piece from `index` on that was not passed; it can be `index` itself."""
        if index >= self._end:
            return index
        skipped = self._skipped.next_member(sequence.piece(index).seq_num)
        if skipped is None:
            return self._end
        first_skipped = sequence.payload_index(skipped)
        assert first_skipped is not None, (
            "payloads of the sequence alone are skipped, and its sparse paths are short"
        )
        return first_skipped

    def has(self, index: int, sequence: Sequence) -> bool:
        """Whether a piece was passed."""
        return self.end_of_run(index, sequence) > index

    def entries(self, sequence: Sequence) -> list[tuple[int, int]]:
        """Return the entries whose metadata was passed, as first and last numbers."""
        return sequence.metadata_runs(0, self._end)

    def payloads(self, sequence: Sequence) -> Iterator[tuple[int, int]]:
        """Yield the entries whose payloads were passed, as first and last numbers."""
        for first, last in sequence.payload_runs(0, self._end):
            number = self._skipped.end_of_run(first)
            while number <= last:
                skipped = self._skipped.next_member(number)
                past = last + 1 if skipped is None else min(skipped, last + 1)
                yield number, past - 1
                number = self._skipped.end_of_run(past)

    @property
    def skipped_runs(self) -> int:
        """Number of stored runs of skipped payloads."""
        return len(self._skipped)
