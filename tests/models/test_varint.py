"""Numbers of variable size: what is written is read; what ends early or is too long is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import varu64
from culm_models.errors import CulmError
from culm_models.varint import VarintCutOff, VarintTooLong, is_shortest, read_varint, write_varint

NUMBERS = st.integers(0, 2**70) | st.integers(0, 300)


@given(NUMBERS, st.binary(max_size=3), st.binary(max_size=3))
def test_what_is_written_is_read(number: int, before: bytes, behind: bytes) -> None:
    written = write_varint(number)
    data = before + written + behind
    for buffer in (data, bytearray(data), memoryview(data)):
        assert read_varint(buffer, len(before), 11) == (number, len(before) + len(written))
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


@given(st.integers(0, varu64.MAX_VALUE), st.binary(max_size=4), st.binary(max_size=4))
def test_a_number_survives_the_round_trip_at_any_offset(value: int, before: bytes, after: bytes) -> None:
    encoded = varu64.encode(value)
    assert varu64.decode(before + encoded + after, len(before)) == (value, len(encoded))
    assert varu64.decode(memoryview(encoded)) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (247, "f7"),
        (248, "f8f8"),
        (255, "f8ff"),
        (256, "f90100"),
        (300, "f9012c"),
        (65536, "fa010000"),
        (2**64 - 1, "ff" * 9),
    ],
)
def test_published_encodings(value: int, encoded: str) -> None:
    assert varu64.encode(value).hex() == encoded


@given(st.integers(0, varu64.MAX_VALUE))
def test_every_truncation_is_refused(value: int) -> None:
    encoded = varu64.encode(value)
    for size in range(len(encoded)):
        with pytest.raises(varu64.VarU64TruncatedError):
            varu64.decode(encoded[:size])


@given(st.integers(1, 8), st.data())
def test_a_longer_spelling_than_needed_is_refused(size: int, data: st.DataObject) -> None:
    smallest = 248 if size == 1 else 1 << (8 * (size - 1))
    value = data.draw(st.integers(0, smallest - 1))
    with pytest.raises(varu64.VarU64NotCanonicalError):
        varu64.decode(bytes((247 + size,)) + value.to_bytes(size, "big"))


@given(st.binary(max_size=12))
def test_what_decodes_encodes_to_the_same_bytes(data: bytes) -> None:
    try:
        value, size = varu64.decode(data)
    except CulmError:
        return
    assert varu64.encode(value) == data[:size]


@pytest.mark.assertions
@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_number_out_of_range_is_a_programmer_error(value: int) -> None:
    with pytest.raises(AssertionError):
        varu64.encode(value)
