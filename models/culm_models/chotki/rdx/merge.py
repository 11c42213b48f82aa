"""Merge of the operands of one field, the stored one first (reference 3.1).

FIRST: one operand wins. V: the greatest progress of each source. N Z E M C: series of elements, each with a
key (its subject) and a rank that decides between two of one key. The Go replica merges these with a heap of
iterators. Series in strictly ascending order, as all correct writers make them, need no heap unless two
elements of one key and rank differ. L and unknown types are concatenated.

No bytes make a merge fail: a rest that cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from culm_models.chotki.rdx.first import (
    FIRST_LETTERS,
    LOWEST_RAW,
    elements,
    magnitude,
    pairs,
    read_stamp,
)
from culm_models.chotki.rdx.version_vector import merge_vectors

Ranked = tuple[Any, Any, bytes]
"""(key, rank, record as received): of two with one key the one of the greater rank is kept."""
LISTED_BYTES_MAX: Final = 1 << 20
"""The size from which elements are not all held at once: in memory each is many times larger than encoded."""

_Waiting = tuple[Ranked, Iterator[Ranked]]
"""The next element of a series, and an iterator over the rest."""


def merge(letter: str, operands: Sequence[bytes]) -> bytes:
    """Merge the operands of a field of this type."""
    if letter in FIRST_LETTERS:
        return _merge_first(operands)
    read = _SERIES.get(letter)
    if read is not None:
        if sum(map(len, operands)) > LISTED_BYTES_MAX:
            return merge_by_heap([read(operand) for operand in operands])
        return merge_series([list(read(operand)) for operand in operands])
    if letter == "V":
        return merge_vectors(operands)
    if letter in "OY":
        return operands[0] if operands else b""
    return b"".join(operands)


def _merge_first(operands: Sequence[bytes]) -> bytes:
    """Return the operand of the highest revision, value bytes and source; the later one if they are equal."""
    best: tuple[int, bytes, int] | None = None
    winner = b""
    for operand in operands:
        stamp = read_stamp(operand)
        if stamp is None or stamp[0] == LOWEST_RAW:
            continue
        rank = magnitude(stamp[0]), operand[stamp[2] :], stamp[1]
        if best is None or rank >= best:
            best, winner = rank, operand
    return winner


def _by_source(data: bytes) -> Iterator[Ranked]:
    """Read N and Z: for each source the greatest raw revision is kept, which in N is the value itself."""
    start = 0
    for _, raw, src, _, end in elements(data):
        yield src, raw, data[start:end]
        start = end


def _by_value(data: bytes) -> Iterator[Ranked]:
    """Read E: for each value, whatever its letter, the latest stamp is kept."""
    start = 0
    for _, raw, src, value, end in elements(data):
        yield value, (raw, src), data[start:end]
        start = end


def _by_map_key(data: bytes) -> Iterator[Ranked]:
    """Read M: for each key the latest stamp of the key is kept, with the value of that pair."""
    start = 0
    for (code, raw, src, key, _), (*_, end) in pairs(data):
        yield (code, key), (raw, src), data[start:end]
        start = end


def _by_class_entry(data: bytes) -> Iterator[Ranked]:
    """Read C: every entry that differs in offset, letter or value is kept."""
    start = 0
    for code, raw, _, value, end in elements(data):
        yield (raw, code, value), 0, data[start:end]
        start = end


_SERIES: Final[dict[str, Callable[[bytes], Iterator[Ranked]]]] = {
    "N": _by_source,
    "Z": _by_source,
    "E": _by_value,
    "M": _by_map_key,
    "C": _by_class_entry,
}


def merge_series(inputs: list[list[Ranked]]) -> bytes:
    """Merge the records of several series, without the heap if the result does not depend on it."""
    inputs = [series for series in inputs if series]
    if len(inputs) == 1:
        return b"".join([data for _, _, data in inputs[0]])
    best: dict[Any, tuple[Any, bytes]] = {}
    for series in inputs:
        before = None
        for key, rank, data in series:
            if before is not None and not before < key:
                return merge_by_heap(inputs)
            before = key
            known = best.get(key)
            if known is None or rank > known[0]:
                best[key] = rank, data
            elif rank == known[0] and data != known[1]:
                return merge_by_heap(inputs)
    return b"".join([best[key][1] for key in sorted(best)])


def merge_by_heap(inputs: Iterable[Iterable[Ranked]]) -> bytes:
    """Merge the records of several series in the order in which a binary heap returns them.

    The result for unsorted series depends on every step of the heap, so these steps are those of the
    reference. Each series has one record in memory at a time.
    """
    heap: list[_Waiting] = []
    for series in inputs:
        _push_next(heap, iter(series))
    merged = bytearray()
    while heap:
        taken, rest = _pop(heap)
        merged += taken[2]
        while heap and _supersedes(taken, heap[0][0]):
            _push_next(heap, _pop(heap)[1])
        _push_next(heap, rest)
    return bytes(merged)


def _supersedes(candidate: Ranked, other: Ranked) -> bool:
    """Whether both have one key, and ``candidate`` is kept; also if they are equal."""
    return bool(candidate[0] == other[0] and candidate[1] >= other[1])


def _is_before(waiting: _Waiting, other: _Waiting) -> bool:
    """Whether ``waiting`` leaves the heap before ``other``; also if they are equal."""
    (own_key, own_rank, _), (other_key, other_rank, _) = waiting[0], other[0]
    return bool(own_key < other_key or (own_key == other_key and own_rank >= other_rank))


def _push_next(heap: list[_Waiting], series: Iterator[Ranked]) -> None:
    """Put a series into the heap with its next record, if it has one."""
    following = next(series, None)
    if following is None:
        return
    heap.append((following, series))
    at = len(heap) - 1
    while at > 0:
        parent = (at - 1) // 2
        if not _is_before(heap[at], heap[parent]):
            return
        heap[at], heap[parent] = heap[parent], heap[at]
        at = parent


def _pop(heap: list[_Waiting]) -> _Waiting:
    heap[0], heap[-1] = heap[-1], heap[0]
    taken = heap.pop()
    at, size = 0, len(heap)
    while (child := 2 * at + 1) < size:
        right = child + 1
        if right < size and _is_before(heap[right], heap[child]):
            child = right
        if not _is_before(heap[child], heap[at]):
            break
        heap[at], heap[child] = heap[child], heap[at]
        at = child
    return taken
