"""Entries with either hash: sizes, round trips, measuring, and the other flavour's form refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo import decode_entry, needs_skiplink
from culm_models.bamboo.entry import max_entry_size, measure_entry, sign_entry
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.keys import KeyPair

AUTHOR = KeyPair.generate(b"author")
flavours = pytest.mark.parametrize("flavour", [YAMF, YASMF], ids=lambda flavour: flavour.name)


def _entry(seq_num: int, flavour: HashFlavour, *, log_id: int = 0) -> bytes:
    return sign_entry(
        AUTHOR,
        log_id,
        seq_num,
        b"payload",
        backlink=flavour.hash(b"back") if seq_num > 1 else None,
        skiplink=flavour.hash(b"skip") if needs_skiplink(seq_num) else None,
        flavour=flavour,
    )


def test_the_published_sizes() -> None:
    assert [len(_entry(seq_num, YAMF)) for seq_num in (1, 2, 8)] == [166, 232, 298]
    assert [len(_entry(seq_num, YASMF)) for seq_num in (1, 2, 8)] == [134, 168, 202]
    assert (max_entry_size(YAMF), max_entry_size(YASMF)) == (322, 226)


@flavours
@given(seq_num=st.integers(1, 2**64 - 1) | st.integers(1, 300), log_id=st.integers(0, 2**64 - 1))
def test_an_entry_is_decoded_and_measured(flavour: HashFlavour, seq_num: int, log_id: int) -> None:
    entry = _entry(seq_num, flavour, log_id=log_id)
    decoded = decode_entry(entry, flavour)
    assert (decoded.seq_num, decoded.log_id) == (seq_num, log_id)
    assert measure_entry(entry + b"more", flavour) == len(entry)
    assert all(measure_entry(entry[:size], flavour) in (None, len(entry)) for size in range(len(entry)))


@flavours
def test_an_entry_of_the_other_flavour_is_refused(flavour: HashFlavour) -> None:
    other = YAMF if flavour is YASMF else YASMF
    for seq_num in (1, 2, 8):
        with pytest.raises(BambooError):
            decode_entry(_entry(seq_num, other), flavour)
    with pytest.raises(BambooError):
        sign_entry(AUTHOR, 0, 2, b"", backlink=other.hash(b"back"), flavour=flavour)
