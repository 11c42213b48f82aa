"""Stamps, and the elements that carry them: what most values are made of (reference 1.4).

A stamp is a tiny record T with a pair, revision and source; where the pair is too long for that, a short one.
A revision is kept zigzagged, as it is written, and then called ``raw``: most rules compare these, some the
`magnitude`, which has no sign. Stamps that are stored are read as the Go replica reads them: a pair of an
impossible length is (0, 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from culm_models.chotki.tlv import TINY, TINY_MAX, probe, record, spans
from culm_models.chotki.zip import PAIR_WIDTHS, pack_pair

FIRST_LETTERS: Final = "FIRST"
"""Floats, integers, references, strings, terms: one stamp, one value, the last writer wins."""
EMPTY_STAMP: Final = b"0"
"""The stamp of revision 0 of source 0, and the least value of a FIRST."""

LOWEST_RAW: Final = (1 << 64) - 1
"""Revision -2^63, which has no magnitude: the Go replica leaves out a FIRST that has it."""
MAGNITUDE_MAX: Final = (1 << 63) - 1
"""The highest revision."""
_T: Final = ord("T")
_TINY: Final = ord(TINY)
_NO_PAIR: Final = (0, 0)

Element = tuple[int, int, int, bytes, int]
"""(letter's code, raw revision, source, value, end of the record in what was read)."""


def read_stamp(data: bytes, at: int = 0, end: int | None = None) -> tuple[int, int, int] | None:
    """The stamp at ``at``: (raw revision, source, where it ends); None where no whole stamp is."""
    if end is None:
        end = len(data)
    if at >= end:
        return None
    size = data[at] - 0x30
    start = at + 1
    if not 0 <= size <= TINY_MAX:
        code, header_length, size = probe(data, at)
        if code != _T:
            return None
        start = at + header_length
    stop = start + size
    if stop > end:
        return None
    middle = start + PAIR_WIDTHS.get(size, _NO_PAIR)[0]
    if middle == start:
        return 0, 0, stop
    return int.from_bytes(data[start:middle], "little"), int.from_bytes(data[middle:stop], "little"), stop


@lru_cache(maxsize=1_024)
def write_stamp(raw: int, src: int) -> bytes:
    """The stamp of a raw revision and a source."""
    return record("t", pack_pair(raw, src))


def magnitude(raw: int) -> int:
    """The revision without its sign."""
    return (raw + 1) >> 1


def next_raw(raw: int) -> int:
    """The raw revision after ``raw``, whatever its sign; the greatest that there is has itself behind it."""
    return min(magnitude(raw) + 1, MAGNITUDE_MAX) << 1


def read_first(value: bytes) -> tuple[int, int, bytes]:
    """(raw revision, source, value bytes) of a FIRST; nothing, or what has no stamp, is an empty one."""
    stamp = read_stamp(value)
    if stamp is None:
        return 0, 0, b""
    raw, src, at = stamp
    return raw, src, value[at:]


def write_first(raw: int, src: int, value: bytes) -> bytes:
    """A FIRST: stamp and value bytes."""
    return write_stamp(raw, src) + value


def write_element(code: int, raw: int, src: int, value: bytes) -> bytes:
    """The record of an element, by its letter's code."""
    return record(chr(code), write_stamp(raw, src), value)


def elements(data: bytes) -> Iterator[Element]:
    """The elements that ``data`` begins with, up to the first byte that begins none.

    As in the Go replica, an element without a whole stamp is an empty one of revision 0 and source 0.
    """
    for code, start, end in spans(data):
        if code == _TINY:
            return
        stamp = read_stamp(data, start, end)
        if stamp is None:
            yield code, 0, 0, b"", end
            continue
        yield code, stamp[0], stamp[1], data[stamp[2] : end], end


def pairs(data: bytes) -> Iterator[tuple[Element, Element]]:
    """The pairs, key and value, that ``data`` begins with; a key without a value is left out."""
    found = elements(data)
    return zip(found, found, strict=False)
