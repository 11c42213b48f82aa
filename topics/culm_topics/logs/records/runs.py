"""Sets of sequence numbers inside a record: runs in one flat list, start and end by turns.

A run ends one above its last number. Runs ascend and never touch, so the list ascends strictly and a set has
one spelling only. The number 2^64 - 1 has no end that fits, so no list can name it.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from culm_topics.records.kinds import Kind, kind_of, rule, where
from culm_topics.records.shape import MAX_UINT

Runs = tuple[tuple[int, int], ...]
"""((start, end), ...) from 1 on, each end exclusive; ascending and never touching."""


def runs_kind(maximum: int, together: str) -> Kind:
    """The kind of at most so many runs; `together` ends the comment of its CDDL."""
    note = (
        "Runs of sequence numbers: start, end, start, end ..., each end one above the last of its run; "
        f"ascending and never touching. At most {maximum:,} runs {together}."
    )
    kind = where(
        f"len({{x}}) <= {2 * maximum} and len({{x}}) % 2 == 0 and ascends({{x}})",
        f"a list of at most {maximum} starts and ends that ascend",
        ascends=_ascends,
        pairs=_pairs,
    )(
        replace(
            kind_of(tuple[int, ...]),
            cddl=f"[*{2 * maximum} 1..{MAX_UINT}]",
            sound="type({x}) is list and all([type(i) is int for i in {x}])",
            holds="",
            read="pairs({x})",
            write="[number for run in {x} for number in run]",
        )
    )
    return rule("runs", note)(kind)


def clip_runs(ranges: Iterable[tuple[int, int]]) -> Runs:
    """What a record can say of the runs of a `RangeSet`: without 0, which no entry is, and 2^64 - 1."""
    clipped = ((max(start, 1), min(end, MAX_UINT)) for start, end in ranges)
    return tuple((start, end) for start, end in clipped if start < end)


def _pairs(numbers: list[int]) -> Runs:
    one_by_one = iter(numbers)
    return tuple(zip(one_by_one, one_by_one, strict=True))


def _ascends(numbers: list[int]) -> bool:
    if numbers and not 1 <= numbers[0] <= numbers[-1] <= MAX_UINT:
        return False
    return all(low < high for low, high in pairwise(numbers))
