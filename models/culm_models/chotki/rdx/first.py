"""Stamps, and the elements that carry them; most values consist of these (reference 1.4).

A stamp is a tiny record T with a pair of revision and source, or a short record if the pair is too long.
A revision is kept zigzagged, as it is written, and is then called ``raw``. Most rules compare raw revisions,
some the `magnitude`, which has no sign. Stored stamps are read as the Go replica reads them: a pair of an
impossible length is (0, 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from culm_models.chotki.tlv import TINY, TINY_MAX, probe, record, spans
from culm_models.chotki.zip import PAIR_WIDTHS, pack_pair

FIRST_LETTERS: Final = "FIRST"
"""Floats, integers, references, strings and terms: one stamp and one value; the last writer wins."""
EMPTY_STAMP: Final = b"0"
"""The stamp of revision 0 of source 0, and the least value of a FIRST."""

LOWEST_RAW: Final = (1 << 64) - 1
"""Revision -2^63, which has no magnitude: the Go replica ignores a FIRST that has it."""
MAGNITUDE_MAX: Final = (1 << 63) - 1
"""The highest revision."""
_T: Final = ord("T")
_TINY: Final = ord(TINY)
_NO_PAIR: Final = (0, 0)

Element = tuple[int, int, int, bytes, int]
"""(letter's code, raw revision, source, value, end of the record in the bytes read)."""


def read_stamp(data: bytes, at: int = 0, end: int | None = None) -> tuple[int, int, int] | None:
    """Return the stamp at ``at`` as (raw revision, source, end), or None if there is no whole stamp."""
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
    """Encode the stamp of a raw revision and a source."""
    return record("t", pack_pair(raw, src))


def magnitude(raw: int) -> int:
    """Return the revision without its sign."""
    return (raw + 1) >> 1


def next_raw(raw: int) -> int:
    """Return the raw revision after ``raw``, whatever its sign; `MAGNITUDE_MAX` has no greater successor."""
    return min(magnitude(raw) + 1, MAGNITUDE_MAX) << 1


def read_first(value: bytes) -> tuple[int, int, bytes]:
    """Return (raw revision, source, value bytes) of a FIRST; without a stamp, those of an empty value."""
    stamp = read_stamp(value)
    if stamp is None:
        return 0, 0, b""
    raw, src, at = stamp
    return raw, src, value[at:]


def write_first(raw: int, src: int, value: bytes) -> bytes:
    """Encode a FIRST: stamp and value bytes."""
    return write_stamp(raw, src) + value


def write_element(code: int, raw: int, src: int, value: bytes) -> bytes:
    """Encode the record of an element; ``code`` is its letter's code."""
    return record(chr(code), write_stamp(raw, src), value)


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements at the beginning of ``data``, up to the first byte that begins no element.

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
    """Yield the pairs of key and value at the beginning of ``data``; a key without a value is left out."""
    remaining = elements(data)
    return zip(remaining, remaining, strict=False)
