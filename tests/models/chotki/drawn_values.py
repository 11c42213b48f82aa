"""Values for hypothesis: what correct writers make, source by source, and what nobody should.

A correct writer gives each of its stamps to one value, has no revision below zero but in E, and writes a
value of a set with one letter. So what a source writes under a stamp follows here from the stamp.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from culm_models.chotki.rdx.classes import ClassField, write_class
from culm_models.chotki.rdx.first import write_element, write_first, write_stamp
from culm_models.chotki.rdx.version_vector import write_vector
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import pack_float, pack_int, pack_pair, pack_uint, zigzag

SOURCES = (0xA, 0xB, 0x1234, 0x1_2345_6789)
REVISIONS = st.integers(0, 4) | st.integers(0, 1 << 40)
SET_VALUES = (b"", b"a", b"ab", b"\4", b"\0\2", b"long enough for more than a word")
MERGED_IN_ANY_ORDER = "FIRSTNZEMVC"


def content(letter: str, seed: int) -> bytes:
    """Value bytes of a FIRST."""
    if letter == "I":
        return pack_int(seed - 3)
    if letter == "F":
        return pack_float(seed / 4)
    if letter == "R":
        return pack_pair(seed % 7, seed << 12)
    return (b"", b"a", b"ab", b"abcdefgh", b"abcdefghi", b"abcdefghz", b"\xff")[seed % 7]


def _first(letter: str, src: int) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda rev, seed: write_first(zigzag(rev), src, content(letter, seed)), REVISIONS, st.integers(0, 300)
    )


def _natural(src: int) -> st.SearchStrategy[bytes]:
    return st.builds(lambda n: record("T", write_stamp(n, src)), REVISIONS)


def _counter(src: int) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda rev: write_element(ord("I"), zigzag(rev), src, pack_int((rev * 7919 + src) % 1000 - 500)),
        REVISIONS,
    )


def _set(src: int) -> st.SearchStrategy[bytes]:
    chosen = st.dictionaries(st.sampled_from(SET_VALUES), st.integers(-4, 4))
    return chosen.map(
        lambda revs: b"".join(
            write_element(ord("IRST"[min(len(value), 3)]), zigzag(revs[value]), src, value)
            for value in sorted(revs)
        )
    )


def _map(src: int) -> st.SearchStrategy[bytes]:
    keys = st.tuples(st.sampled_from([*b"IST"]), st.sampled_from(SET_VALUES[:-1]))

    def pairs(revs: dict[tuple[int, bytes], int]) -> bytes:
        parts = []
        for code, key in sorted(revs):
            raw = zigzag(revs[code, key])
            value = content("S", revs[code, key] + src + len(key))
            parts += [write_element(code, raw, src, key), write_element(ord("S"), raw, src, value)]
        return b"".join(parts)

    return st.dictionaries(keys, st.integers(0, 4)).map(pairs)


def _vector(src: int) -> st.SearchStrategy[bytes]:
    known = st.sampled_from([*SOURCES, src, 0])
    return st.dictionaries(known, st.integers(0, (1 << 52) - 1), max_size=4).map(write_vector)


def _class(src: int) -> st.SearchStrategy[bytes]:
    fields = st.builds(
        ClassField,
        st.integers(-2, 5),
        st.sampled_from("FIRSTNZEMLV"),
        st.sampled_from(["Name", "Age", "é"]),
        st.sampled_from([0, 70]),
    )
    return st.frozensets(fields, max_size=4).map(write_class)


_WRITERS: dict[str, Callable[[int], st.SearchStrategy[bytes]]] = {
    "N": _natural,
    "Z": _counter,
    "E": _set,
    "M": _map,
    "V": _vector,
    "C": _class,
}


def written_by(letter: str, src: int) -> st.SearchStrategy[bytes]:
    """An operand of a field of this type that source ``src`` writes correctly."""
    return _WRITERS[letter](src) if letter in _WRITERS else _first(letter, src)


def written(letter: str) -> st.SearchStrategy[bytes]:
    """An operand that any source writes correctly."""
    return st.sampled_from(SOURCES).flatmap(lambda src: written_by(letter, src))


SLOPPY_STAMPS = st.builds(
    lambda letter, body: record(letter, body),
    st.sampled_from("tTTxX"),
    st.builds(pack_pair, st.integers(0, 3), st.integers(0, 3)) | st.binary(max_size=17),
)
SLOPPY_FIRSTS = st.builds(
    lambda stamp, value: stamp + value, SLOPPY_STAMPS, st.binary(max_size=12)
) | st.just(b"")
SLOPPY_ELEMENTS = st.builds(record, st.sampled_from("FIRSTIITTVtiX"), SLOPPY_FIRSTS)
SMALL_ELEMENTS = st.builds(
    lambda letter, raw, src, value: write_element(ord(letter), raw, src, value),
    st.sampled_from("IT"),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([b"", b"\1", b"a", b"ab"]),
)
SMALL_ENTRIES = st.builds(
    lambda letter, src, pro: record(letter, pack_pair(src, pro)),
    st.sampled_from("VVVVvX"),
    st.integers(0, 3),
    st.integers(0, 3) | st.integers(0, (1 << 64) - 1),
)
SLOPPY_VALUES = (
    SLOPPY_FIRSTS
    | st.lists(SMALL_ELEMENTS, max_size=6).map(b"".join)
    | st.lists(SMALL_ENTRIES, max_size=6).map(b"".join)
    | st.lists(SLOPPY_ELEMENTS, max_size=4).map(b"".join)
    | st.builds(
        lambda elements, rest: elements + rest,
        st.lists(SMALL_ELEMENTS, max_size=3).map(b"".join),
        st.binary(max_size=9),
    )
    | st.binary(max_size=20)
    | st.integers(0, 1 << 60).map(pack_uint)
)
"""Values in any form: unsorted, of wrong lengths, with ties, cut off."""
