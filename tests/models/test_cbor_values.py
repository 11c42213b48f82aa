"""CBOR: values survive the round trip or are refused, and a stream gives whole items however it is cut."""

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


streamed = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=25,
)
ENTRY_MESSAGE = cbor.dumps([2, 51, bytes(168), bytes(300)])
MAX_BYTES = 1 << 16


def _scanner() -> cbor.ItemScanner:
    return cbor.ItemScanner(MAX_BYTES, max_depth=30)


def _outcome(pieces: list[bytes], max_bytes: int, max_depth: int) -> tuple[list[bytes], str | None]:
    """All items that a stream gives, and the code of the fault that ends it."""
    scanner = cbor.ItemScanner(max_bytes, max_depth)
    items: list[bytes] = []
    try:
        for piece in [*pieces, b""]:
            items += scanner.feed(piece)
    except cbor.CborError as error:
        return items, error.code
    return items, None


@given(st.lists(streamed, max_size=5), st.data())
def test_items_come_out_whole_however_the_stream_is_cut(messages: list[object], data: st.DataObject) -> None:
    items = [cbor.dumps(message) for message in messages]
    stream = b"".join(items)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert _outcome(pieces, MAX_BYTES, 30) == (items, None)


@given(streamed)
def test_an_item_cut_at_every_byte_comes_out_whole(message: object) -> None:
    item = cbor.dumps(message)
    scanner = _scanner()
    for cut in range(1, len(item)):
        assert scanner.feed(item[:cut]) == []
        assert scanner.pending == cut
        assert scanner.feed(item[cut:] + item[:1]) == ([item, item] if len(item) == 1 else [item])
        if len(item) > 1:
            assert scanner.feed(item[1:]) == [item]
    assert [scanned for byte in item for scanned in scanner.feed(bytes((byte,)))] == [item]


def test_many_items_in_one_piece_and_one_in_many() -> None:
    scanner = _scanner()
    assert scanner.feed(ENTRY_MESSAGE * 100 + ENTRY_MESSAGE[:7]) == [ENTRY_MESSAGE] * 100
    assert scanner.feed(ENTRY_MESSAGE[7:] + ENTRY_MESSAGE) == [ENTRY_MESSAGE] * 2
    assert scanner.pending == 0


@given(st.binary(max_size=80), st.integers(1, 40), st.integers(1, 4))
def test_the_outcome_never_depends_on_the_cuts(stream: bytes, max_bytes: int, max_depth: int) -> None:
    whole = _outcome([stream], max_bytes, max_depth)
    assert whole == _outcome([stream[i : i + 1] for i in range(len(stream))], max_bytes, max_depth)
    assert whole == _outcome([stream[i : i + 7] for i in range(0, len(stream), 7)], max_bytes, max_depth)
    assert all(len(item) <= max_bytes for item in whole[0])


heads = st.sampled_from([bytes((first,)) for first in (0x81, 0x82, 0x83, 0x98, 0xA1, 0xB8, 0x42, 0x58, 0x18)])


@given(st.lists(heads | st.binary(max_size=3), max_size=30).map(b"".join), st.integers(1, 30))
def test_the_outcome_never_depends_on_the_cuts_in_nested_items(stream: bytes, max_bytes: int) -> None:
    whole = _outcome([stream], max_bytes, 3)
    assert whole == _outcome([stream[i : i + 1] for i in range(len(stream))], max_bytes, 3)


@pytest.mark.parametrize("head", ["5b", "7b", "9b", "bb"])
@pytest.mark.parametrize("size", [2**62, 2**64 - 1, MAX_BYTES])
def test_a_declared_size_beyond_the_limit_is_refused_with_its_head(head: str, size: int) -> None:
    scanner = _scanner()
    with pytest.raises(cbor.CborError) as caught:
        scanner.feed(bytes.fromhex(head) + size.to_bytes(8, "big"))
    assert caught.value.code == "cbor.too_large"
    assert scanner.pending == 0


def test_sizes_are_added_up_over_the_whole_item() -> None:
    half = cbor.dumps(bytes(MAX_BYTES // 2))
    assert _scanner().feed(half) == [half]
    scanner = _scanner()
    with pytest.raises(cbor.CborError) as caught:
        scanner.feed(b"\x82" + half + half[:3])
    assert caught.value.code == "cbor.too_large"


def test_an_item_of_just_the_limit_passes_and_one_byte_more_does_not() -> None:
    item = cbor.dumps([1, bytes(20), [2, 3]])
    assert cbor.ItemScanner(len(item)).feed(item) == [item]
    with pytest.raises(cbor.CborError):
        cbor.ItemScanner(len(item) - 1).feed(item)


def test_what_is_held_of_an_unfinished_item_stays_within_the_limit() -> None:
    scanner = cbor.ItemScanner(1000)
    assert scanner.feed(cbor.dumps(bytes(900))[:-1]) == []
    assert scanner.pending < 1000


def test_long_runs_of_small_items_are_counted_right() -> None:
    message = cbor.dumps([[1] * 500, [True, None, -3] * 200, {"a": [0] * 9}, 7])
    for cut in range(1, len(message), 13):
        assert _outcome([message[:cut], message[cut:]], MAX_BYTES, 8) == ([message], None)


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        ("9f", "cbor.indefinite_length"),
        ("82015f", "cbor.indefinite_length"),
        ("c1", "cbor.tag"),
        ("81d9", "cbor.tag"),
        ("dc", "cbor.malformed"),
        ("1d", "cbor.malformed"),
        ("81ff", "cbor.malformed"),
        ("81" * 9, "cbor.depth"),
    ],
)
def test_faults_end_the_stream(stream: str, code: str) -> None:
    scanner = cbor.ItemScanner(MAX_BYTES)
    with pytest.raises(cbor.CborError) as caught:
        scanner.feed(bytes.fromhex(stream))
    assert caught.value.code == code
    with pytest.raises(cbor.CborError):
        scanner.feed(b"\x01")


def test_items_before_a_fault_are_not_lost() -> None:
    scanner = _scanner()
    assert scanner.feed(ENTRY_MESSAGE + b"\xff") == [ENTRY_MESSAGE]
    assert scanner.error is not None
    with pytest.raises(cbor.CborError):
        scanner.feed(b"")


def test_empty_containers_do_not_nest() -> None:
    assert cbor.ItemScanner(MAX_BYTES, max_depth=1).feed(b"\x82\x80\xa0\x80") == [b"\x82\x80\xa0", b"\x80"]
