import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import varu64
from culm_models.errors import CulmError


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
