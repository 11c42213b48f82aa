"""What is compressed comes out again, within window, history and bounds (reference 1.6, R56)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import lzfoo
from culm_models.lzfoo import Compressor, Decompressor, decompress, read_element

_WINDOWS = st.one_of(
    st.sampled_from((1, 2, 247, 248, 255, 256, 4_096, 65_535, 65_536, 2**40)), st.integers(1, 2**64 - 1)
)
_REPETITIVE = st.builds(
    lambda words, picks: b"".join(words[pick % len(words)] for pick in picks),
    st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=200),
)
_PAYLOADS = st.one_of(st.binary(max_size=400), _REPETITIVE)


@given(st.lists(_PAYLOADS, max_size=6), _WINDOWS, _PAYLOADS)
def test_what_is_compressed_comes_out_again(payloads: list[bytes], window: int, history: bytes) -> None:
    ours = Compressor(window, history)
    theirs = Decompressor(window, history)
    for payload in payloads:
        compressed = ours.compress(payload)
        if compressed is None:
            continue
        assert b"".join(theirs.feed(compressed, len(payload))) == payload
        theirs.end()


@given(st.lists(_PAYLOADS, max_size=6), _WINDOWS, _PAYLOADS)
def test_no_offset_exceeds_window_and_history(payloads: list[bytes], window: int, history: bytes) -> None:
    ours, remembered = Compressor(window, history), len(history)
    for payload in payloads:
        compressed = ours.compress(payload)
        if compressed is None:
            continue
        at = 0
        while at < len(compressed):
            element = read_element(compressed, at)
            assert element is not None
            at, length, offset = element
            if offset is None:
                at += length
            else:
                assert 0 < offset <= min(window, remembered)
            remembered += length


@given(_PAYLOADS, _WINDOWS)
def test_compressed_is_shorter_or_nothing_once_there_is_a_history(payload: bytes, window: int) -> None:
    compressed = Compressor(window, bytes(min(window, lzfoo.REACH_BYTES))).compress(payload)
    assert compressed is None or len(compressed) < len(payload)


@given(_PAYLOADS, _WINDOWS)
def test_what_is_compressed_stays_within_what_the_other_end_takes(payload: bytes, window: int) -> None:
    compressed = Compressor(window).compress(payload)
    assert compressed is None or len(compressed) <= min(len(payload) + 3, 2 * len(payload) + 16)


def test_small_payloads_that_are_alike_are_compressed_after_the_first() -> None:
    compressor = Compressor(65_536)
    sizes = [
        len(
            compressor.compress(b'{"kind":"reading","celsius":%d,"at":%d}' % (number * 7 % 31, number)) or b""
        )
        for number in range(20)
    ]
    assert 0 < sizes[19] < sizes[0] / 2


def test_copies_reach_into_what_was_compressed_before() -> None:
    words = random.Random(1).randbytes(300)
    ours, theirs = Compressor(65_536), Decompressor(65_536)
    first = ours.compress(words + words)
    assert first is not None
    assert b"".join(theirs.feed(first, 600)) == words + words
    again = ours.compress(words)
    assert again is not None
    assert len(again) < 20
    assert b"".join(theirs.feed(again, 300)) == words


def test_copies_reach_into_a_given_history() -> None:
    words = random.Random(2).randbytes(300)
    compressed = Compressor(300, words).compress(words)
    assert compressed is not None
    assert len(compressed) < 20
    assert decompress(compressed, window=300, history=words, length=300) == words


def test_what_went_out_raw_is_not_copied_from() -> None:
    made = random.Random(3)
    ours, theirs = Compressor(65_536), Decompressor(65_536)
    raw, known = made.randbytes(500), made.randbytes(500)
    payloads = [known * 5, raw, known, raw + raw, made.randbytes(20), known + raw[:30], raw[:100] + known]
    was_raw = []
    for payload in payloads:
        compressed = ours.compress(payload)
        was_raw.append(compressed is None)
        if compressed is not None:
            assert b"".join(theirs.feed(compressed, len(payload))) == payload
    assert was_raw == [False, True, False, False, True, False, False]


@pytest.mark.parametrize("window", [256, 1_024, 4_096, 65_536])
def test_repeats_within_a_window_of_any_size_are_found(window: int) -> None:
    payload = (random.Random(4).randbytes(window // 4)) * 40
    compressed = Compressor(window).compress(payload)
    assert compressed is not None
    assert len(compressed) < len(payload) // 8


def test_random_bytes_do_not_pay() -> None:
    assert Compressor(65_536).compress(random.Random(5).randbytes(100_000)) is None


def test_long_runs_and_long_literals() -> None:
    made = random.Random(6)
    payload = made.randbytes(70_000) + bytes(300_000) + made.randbytes(130) + b"ab" * 70_000
    compressed = Compressor(65_536).compress(payload)
    assert compressed is not None
    assert decompress(compressed, window=65_536, length=len(payload)) == payload


def test_a_window_of_nothing_compresses_nothing() -> None:
    assert Compressor(0).compress(bytes(1_000)) is None


def test_without_lz4_nothing_is_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lzfoo, "lz4_block", None)
    assert Compressor(65_536).compress(bytes(1_000)) is None
