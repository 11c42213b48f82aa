"""Which pieces the other end has passed in a request: the way over them is a notify (R46, R48, R65).

Metadata cannot be skipped, so all before its cursor was passed by data or by notify but for the payloads that
it skipped, which it may lack. Those alone are remembered, by entry, so that payloads skipped in a row are one
run. An end that skips every second payload of a long range would still make a run for each two: of so many
runs the last ones are joined, and the payloads between count as not passed. Sending those again is legal
(R47), and nothing that the other end lacks is held back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.requests.sequence import Sequence

SKIPPED_RUNS_MAX: Final = 1_024


class PassedPieces:
    """The pieces that the other end passed; some 50 KB at most, whatever it says."""

    __slots__ = ("_end", "_skipped")

    def __init__(self) -> None:
        self._end = 0
        self._skipped = RangeSet()

    def pass_to(self, end: int) -> None:
        """Valid data or a notify brought the other end to piece `end`."""
        self._end = end

    def skip(self, index: int, seq_num: int) -> None:
        """The other end skipped the payload of an entry, which is the piece at `index`."""
        self._end = index + 1
        self._skipped.add_coarsely(seq_num, seq_num + 1, SKIPPED_RUNS_MAX)

    def end_of_run(self, index: int, sequence: Sequence) -> int:
        """The first piece from `index` on that was not passed; `index` itself where it was not."""
        if index >= self._end:
            return index
        skipped = self._skipped.next_member(sequence.piece(index).seq_num)
        if skipped is None:
            return self._end
        found = sequence.payload_index(skipped)
        assert found is not None, "payloads of the sequence alone are skipped, and its sparse paths are short"
        return found

    def has(self, index: int, sequence: Sequence) -> bool:
        """Whether a piece was passed."""
        return self.end_of_run(index, sequence) > index

    def entries(self, sequence: Sequence) -> list[tuple[int, int]]:
        """Entries whose metadata was passed, as first and last numbers."""
        return sequence.metadata_runs(0, self._end)

    def payloads(self, sequence: Sequence) -> Iterator[tuple[int, int]]:
        """Entries whose payloads were passed, as first and last numbers."""
        for first, last in sequence.payload_runs(0, self._end):
            number = self._skipped.end_of_run(first)
            while number <= last:
                skipped = self._skipped.next_member(number)
                past = last + 1 if skipped is None else min(skipped, last + 1)
                yield number, past - 1
                number = self._skipped.end_of_run(past)

    @property
    def skipped_runs(self) -> int:
        """How many runs of skipped payloads are remembered."""
        return len(self._skipped)
