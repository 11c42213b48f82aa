"""Sets of sequence numbers inside a record: runs in one flat list, start and end by turns.

A run ends one above its last number. Runs ascend and never touch, so the list ascends strictly and a set has
one spelling only. The number 2^64 - 1 has no end that fits, so no list can name it.
"""

from collections.abc import Iterable
from itertools import pairwise

from culm_topics.records.shape import MAX_UINT, head_size, is_uint, refuse_item, require

Runs = tuple[tuple[int, int], ...]
"""((start, end), ...) from 1 on, each end exclusive; ascending and never touching."""


def clip_runs(ranges: Iterable[tuple[int, int]]) -> Runs:
    """What a record can say of the runs of a `RangeSet`: without 0, which no entry is, and 2^64 - 1."""
    clipped = ((max(start, 1), min(end, MAX_UINT)) for start, end in ranges)
    return tuple((start, end) for start, end in clipped if start < end)


def flat_runs(record: str, name: str, runs: Runs, most: int) -> list[int]:
    """The list of numbers that stands for these runs. Raises `RecordError` where `read_runs` would."""
    numbers = [number for run in runs for number in run]
    require(len(runs) <= most, record, f"{name} has more than {most} runs")
    require(_ascends(numbers), record, f"{name} is no list of ascending runs")
    return numbers


def read_runs(record: str, name: str, item: object, most: int) -> tuple[Runs, int]:
    """The runs that a list stands for, and its part of the size for `check_size`. Raises `RecordError`."""
    if type(item) is not list or len(item) % 2 or len(item) > 2 * most:
        refuse_item(record, name, item, f"a list of at most {most} starts and ends")
    if not all(map(is_uint, item)) or not _ascends(item):
        refuse_item(record, name, item, "ascending sequence numbers")
    numbers = iter(item)
    return tuple(zip(numbers, numbers, strict=True)), head_size(len(item)) + sum(map(head_size, item))


def _ascends(numbers: list[int]) -> bool:
    if numbers and not 1 <= numbers[0] <= numbers[-1] <= MAX_UINT:
        return False
    return all(low < high for low, high in pairwise(numbers))
