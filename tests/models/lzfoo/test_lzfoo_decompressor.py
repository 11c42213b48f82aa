"""LZFoo is read at every split, in bounded pieces, and what is wrong is named (reference 1.6, R56)."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.lzfoo import (
    PIECE_BYTES,
    Decompressor,
    LzfooError,
    LzfooLength,
    LzfooOffset,
    LzfooTruncated,
    copy,
    decompress,
    literals,
)

_PUBLISHED = bytes.fromhex("0361626385 02".replace(" ", ""))


def _spelled(kind: int, number: int, width: int, inline: int) -> bytes:
    """A tag's length or an offset with so many bytes behind the first one, 0 where it stands in it."""
    return (
        bytes((kind | number,))
        if not width
        else bytes((kind | inline - 1 + width,)) + number.to_bytes(width, "big")
    )


@st.composite
def _elements(draw: st.DrawFn) -> bytes:
    """Elements in any spelling; offsets may be wrong."""
    out = b""
    for _ in range(draw(st.integers(0, 12))):
        length = draw(st.integers(0, 300))
        width = draw(st.integers(0 if length < 120 else 2, 8))
        if draw(st.booleans()):
            out += _spelled(0, length, width, 120) + bytes(draw(st.binary(min_size=length, max_size=length)))
        else:
            offset = draw(st.one_of(st.integers(0, 8), st.integers(0, 700)))
            out += _spelled(0x80, length, width, 120)
            out += _spelled(0, offset, draw(st.integers(0 if offset < 248 else 2, 8)), 248)
    return out


def _plainly(data: bytes, window: int, history: bytes) -> bytes | type[LzfooError]:
    """The definition, byte by byte."""
    output, at = bytearray(history), 0
    while at < len(data):
        tag, at = data[at], at + 1
        length = tag & 0x7F
        if length >= 120:
            size = length - 119
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if tag < 0x80:
            output += data[at : at + length]
            at += length
            continue
        offset, at = data[at], at + 1
        if offset >= 248:
            size = offset - 247
            offset, at = int.from_bytes(data[at : at + size], "big"), at + size
        if not 0 < offset <= min(window, len(output)):
            return LzfooOffset
        for _ in range(length):
            output.append(output[-offset])
    return bytes(output[len(history) :])


@given(_elements(), st.sampled_from((1, 5, 256, 600, 2**64 - 1)), st.binary(max_size=300), st.data())
def test_any_split_gives_what_the_definition_gives(
    data: bytes, window: int, history: bytes, drawn: st.DataObject
) -> None:
    expected = _plainly(data, window, history)
    decompressor, output, at = Decompressor(window, history), b"", 0
    try:
        while at < len(data):
            size = drawn.draw(st.integers(1, len(data)))
            output += b"".join(decompressor.feed(data[at : at + size], 10_000))
            at += size
        decompressor.end()
    except LzfooError as error:
        assert type(error) is expected
    else:
        assert output == expected


@given(st.binary(max_size=60), st.integers(0, 2**64 - 1), st.integers(0, 3_000))
def test_any_bytes_are_read_or_refused(data: bytes, window: int, length: int) -> None:
    """The whole at once and byte by byte give one answer."""
    answers = []
    for size in (len(data) + 1, 1):
        decompressor, output, answer = Decompressor(window), b"", ""
        try:
            for at in range(0, len(data), size):
                output += b"".join(decompressor.feed(data[at : at + size], length - len(output)))
            decompressor.end()
        except LzfooError as error:
            answer = error.code
        answers.append((answer, b"" if answer else output))
    assert answers[0] == answers[1]
    assert len(answers[0][1]) <= length


@pytest.mark.parametrize("size", range(1, 7))
def test_the_published_example(size: int) -> None:
    decompressor = Decompressor(65_536)
    pieces = [b"".join(decompressor.feed(_PUBLISHED[at : at + size], 8)) for at in range(0, 6, size)]
    decompressor.end()
    assert b"".join(pieces) == b"abcbcbcb"


@pytest.mark.parametrize(
    ("data", "window", "history"),
    [
        (copy(1, 0), 10, b"abc"),
        (copy(1, 4), 10, b"abc"),
        (copy(1, 3), 2, b"abc"),
        (literals(b"abc") + copy(0, 4), 10, b""),
        (literals(bytes(700)) + copy(5, 600), 599, b""),
        (copy(1, 1), 0, b"abc"),
    ],
)
def test_a_copy_from_nowhere_is_refused(data: bytes, window: int, history: bytes) -> None:
    with pytest.raises(LzfooOffset):
        decompress(data, window=window, history=history)


def test_what_ends_within_an_element_is_truncated() -> None:
    literal = literals(bytes(130))
    whole = literal + copy(500, 300)
    for size in range(1, len(whole)):
        if size == len(literal):
            continue
        with pytest.raises(LzfooTruncated):
            decompress(whole[:size], window=400, history=bytes(400))


@pytest.mark.parametrize("length", [0, 7, 9, 2**63])
def test_another_length_than_announced_is_refused(length: int) -> None:
    with pytest.raises(LzfooLength):
        decompress(_PUBLISHED, window=10, length=length)


def test_more_than_announced_is_refused_before_it_comes() -> None:
    """By its head alone, be it a copy or a literal."""
    for data in (literals(b"a") + copy(2**63, 1), bytes((0x7F,)) + (2**63).to_bytes(8, "big")):
        with pytest.raises(LzfooLength):
            list(Decompressor(10).feed(data, 1_000))


def test_a_copy_of_any_length_comes_in_pieces() -> None:
    decompressor = Decompressor(10)
    pieces = list(islice(decompressor.feed(literals(b"abc") + copy(2**63, 3), 2**64), 20))
    assert all(PIECE_BYTES <= len(piece) <= 2 * PIECE_BYTES for piece in pieces)
    assert b"".join(pieces) == (b"abc" * (20 * PIECE_BYTES))[: sum(map(len, pieces))]


def test_without_a_stated_length_the_output_is_bounded() -> None:
    with pytest.raises(LzfooLength):
        decompress(literals(b"a") + copy(2**63, 1), window=10)


def test_elements_of_no_length_change_nothing() -> None:
    assert decompress(b"\x00\x01a\x80\x01\x00\x83\x01", window=10, length=4) == b"aaaa"


def test_what_came_out_longer_ago_than_the_window_is_forgotten() -> None:
    decompressor = Decompressor(100)
    for _ in range(100):
        assert len(b"".join(decompressor.feed(literals(bytes(10_000)), 10_000))) == 10_000
    assert len(decompressor._output) <= 200 + PIECE_BYTES
