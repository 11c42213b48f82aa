"""Varints: what is written is read, in any form, and bytes that end or go on too long are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.varint import VarintCutOff, VarintTooLong, is_shortest, read_varint, write_varint

NUMBERS = st.integers(0, 2**70) | st.integers(0, 300)


@given(NUMBERS, st.binary(max_size=3), st.binary(max_size=3))
def test_what_is_written_is_read(number: int, before: bytes, behind: bytes) -> None:
    written = write_varint(number)
    data = before + written + behind
    for held in (data, bytearray(data), memoryview(data)):
        assert read_varint(held, len(before), 11) == (number, len(before) + len(written))
    assert is_shortest(number, len(written))


@given(NUMBERS, st.integers(1, 4))
def test_longer_forms_are_read_and_told(number: int, more: int) -> None:
    written = write_varint(number)
    longer = written[:-1] + bytes([written[-1] | 0x80]) + b"\x80" * (more - 1) + b"\x00"
    assert read_varint(longer, 0, 20) == (number, len(longer))
    assert not is_shortest(number, len(longer))


@given(NUMBERS, st.data())
def test_it_ends_or_goes_on_too_long(number: int, data: st.DataObject) -> None:
    written = write_varint(number)
    cut = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(VarintCutOff):
        read_varint(written[:cut], 0, len(written))
    if len(written) > 1:
        with pytest.raises(VarintTooLong):
            read_varint(written, 0, len(written) - 1)
