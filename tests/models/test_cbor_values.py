import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import cbor
from culm_models.errors import CulmError

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=40)
    | st.text(max_size=40)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(max_size=8) | st.binary(max_size=8), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(values)
def test_a_value_survives_the_round_trip(value: object) -> None:
    assert cbor.loads(cbor.dumps(value), max_depth=30) == value


@given(values)
def test_every_truncation_and_every_trailing_byte_is_refused(value: object) -> None:
    data = cbor.dumps(value)
    for size in range(len(data)):
        with pytest.raises(cbor.CborError) as caught:
            cbor.loads(data[:size], max_depth=30)
        assert caught.value.code == "cbor.truncated"
    with pytest.raises(cbor.CborError) as caught:
        cbor.loads(data + b"\x00", max_depth=30)
    assert caught.value.code == "cbor.trailing_bytes"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("", "cbor.truncated"),
        ("5b4000000000000000", "cbor.truncated"),
        ("9b4000000000000000", "cbor.truncated"),
        ("bbffffffffffffffff", "cbor.truncated"),
        ("9fff", "cbor.indefinite_length"),
        ("bfff", "cbor.indefinite_length"),
        ("5fff", "cbor.indefinite_length"),
        ("7fff", "cbor.indefinite_length"),
        ("1c", "cbor.malformed"),
        ("ff", "cbor.malformed"),
        ("61ff", "cbor.malformed"),
        ("63eda080", "cbor.malformed"),
        ("a201010102", "cbor.malformed"),
        ("a2616100616101", "cbor.malformed"),
        ("f7", "cbor.value"),
        ("f0", "cbor.value"),
        ("f820", "cbor.value"),
        ("81f7", "cbor.value"),
        ("a100f7", "cbor.value"),
        ("3bffffffffffffffff", "cbor.value"),
        ("813b8000000000000000", "cbor.value"),
        ("a18000", "cbor.value"),
        ("a1f400", "cbor.value"),
        ("81" * 9 + "00", "cbor.depth"),
        ("81" * 100_000 + "00", "cbor.depth"),
        ("0000", "cbor.trailing_bytes"),
    ],
)
def test_what_is_kept_out(data: str, code: str) -> None:
    with pytest.raises(cbor.CborError) as caught:
        cbor.loads(bytes.fromhex(data))
    assert caught.value.code == code


def test_every_tag_is_refused_even_those_that_the_decoder_knows() -> None:
    contents = (b"\x01", b"\x41\x05", b"\x61\x61", b"\x80", b"\xa0", b"\xf9\x3c\x00")
    # Every tag with one of the contents; with each of them the tags that cbor2 may give a meaning.
    known = {*range(512), *range(1_000, 1_024), 43_000, 55_799}
    for tag in range(2**16):
        head = b"\xd9" + tag.to_bytes(2, "big")
        for content in contents if tag in known else (contents[tag % len(contents)],):
            with pytest.raises(cbor.CborError):
                cbor.loads(head + content)
    with pytest.raises(cbor.CborError) as caught:
        cbor.loads(bytes.fromhex("8201c24105"))
    assert caught.value.code == "cbor.tag"


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_errors_of_ours(data: bytes) -> None:
    try:
        value = cbor.loads(data)
    except CulmError:
        return
    assert cbor2.dumps(value) is not None


def test_numbers_are_written_in_their_shortest_form_and_maps_in_the_given_order() -> None:
    encoded = cbor.dumps({"b": [1.5, 12.3, 23, 24, 2**63], "aa": (b"\x00", None, True)})
    assert encoded.hex() == ("a2616285f93e00fb402899999999999a1718181b800000000000000062616183" + "4100f6f5")


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, {1, 2}, {1.5: 1}, [object()], {"a": {2: set()}}])
def test_values_that_could_not_be_read_back_are_not_written(value: object) -> None:
    with pytest.raises(cbor.CborError) as caught:
        cbor.dumps(value)
    assert caught.value.code == "cbor.value"
