"""Keys, values and retrieval hints of the SDS topics: one spelling, and bounds."""

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.errors import RecordError
from culm_topics.sds.keys import (
    MAX_ID_BYTES,
    AckKey,
    AckKind,
    channel_key,
    index_key,
    is_id,
    shard_of,
    split_ack_key,
    split_channel_key,
    split_index_key,
)
from culm_topics.sds.records import (
    MAX_DETAIL_ITEMS,
    MAX_DETAILS,
    SdsCommandRecord,
    SdsEventRecord,
    SdsIndexRecord,
    check_of,
)
from culm_topics.sds.retrieval_hints import HINT_SIZE, StoreHint
from tests.support.kafka.record_values import details


@pytest.mark.parametrize(
    "details",
    [
        {"b": 1, "a": 1},
        {"": 1},
        {"x" * 65: 1},
        {f"{number:02}": 1 for number in range(MAX_DETAILS + 1)},
        {"a": ["x"] * (MAX_DETAIL_ITEMS + 1)},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": -1},
        {"a": ["x", 1]},
        {"a": {"b": 1}},
    ],
)
def test_details_out_of_order_or_bounds_are_refused(details: dict[str, Any]) -> None:
    for items, decode in (
        ([1, 7, "lost", None, "id", 5, details, None], SdsEventRecord.decode),
        ([1, "join", "js", "ann", bytes(16), None, None, details], SdsCommandRecord.decode),
    ):
        with pytest.raises(RecordError):
            decode(cbor2.dumps(items))


def test_a_float_is_read_in_one_width_only() -> None:
    event = SdsEventRecord(7, "lost", None, "id", 5, {"a": 0.5})
    value = event.encode()
    half = value.replace(bytes.fromhex("fb3fe0000000000000"), bytes.fromhex("f93800"))
    assert cbor2.loads(half) == cbor2.loads(value)
    with pytest.raises(RecordError):
        SdsEventRecord.decode(half)


@given(details, st.randoms())
def test_equal_details_give_equal_bytes_in_whatever_order_they_were_put(known: Any, order: Any) -> None:
    shuffled = list(known.items())
    order.shuffle(shuffled)
    events = [SdsEventRecord(7, "lost", None, "id", 5, items) for items in (known, dict(shuffled))]
    assert events[0].encode() == events[1].encode()


def test_an_event_has_a_number_from_one() -> None:
    with pytest.raises(RecordError, match="number"):
        SdsEventRecord.decode(cbor2.dumps([1, 0, "lost", None, "id", 5, {}, None]))


def test_the_bound_of_an_id_counts_bytes_and_not_letters() -> None:
    assert is_id("é" * 512)
    assert not is_id("é" * 513)
    assert not is_id("")
    assert is_id("", empty=True)


def test_the_check_is_the_start_of_sha_256() -> None:
    assert check_of(b"") == bytes.fromhex("e3b0c442")


# Keys of the SDS topics: read again as written, and refused in any other shape.


ids = st.text(min_size=1, max_size=80) | st.just("i" * MAX_ID_BYTES)


@given(ids, ids)
def test_an_index_key_is_read_as_it_was_written(channel_id: str, message_id: str) -> None:
    assert split_index_key(index_key(channel_id, message_id)) == (channel_id, message_id)
    assert split_channel_key(channel_key(channel_id)) == channel_id


@given(ids, ids, ids)
def test_an_ack_key_is_read_as_it_was_written(channel_id: str, participant_id: str, message_id: str) -> None:
    for key, kind in (
        (AckKey(channel_id), AckKind.CHANNEL),
        (AckKey(channel_id, participant_id), AckKind.PARTICIPANT),
        (AckKey(channel_id, participant_id, message_id), AckKind.MESSAGE),
    ):
        assert key.kind is kind
        assert split_ack_key(key.encode()) == key


@given(st.tuples(ids, ids), st.tuples(ids, ids))
def test_messages_share_a_key_only_when_channel_and_id_are_the_same(
    message: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (index_key(*message) == index_key(*other)) == (message == other)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\x00",
        b"\x00\x01",  # cut off within the id
        b"\x00\x00x",  # an empty channel
        b"\x00\x01a",  # no message
        b"\x00\x01\xffb",  # not UTF-8
        b"\x04\x01" + b"a" * 1025 + b"b",  # an id beyond the bound
        b"\x00\x01a" + b"b" * 1025,
    ],
)
def test_keys_of_another_shape_are_refused(key: bytes | None) -> None:
    with pytest.raises(RecordError):
        split_index_key(key)
    if key is not None:
        for kind in AckKind:
            with pytest.raises(RecordError):
                split_ack_key(bytes((kind,)) + (key if key != b"\x00\x01a" else b"\x00\x01"))


@pytest.mark.parametrize("key", [None, b"", b"\x03\x00\x01a", b"\x00\x00\x01ab", b"\x01\x00\x01a\x00\x01bc"])
def test_an_ack_key_has_a_known_kind_and_nothing_behind_its_last_id(key: bytes | None) -> None:
    with pytest.raises(RecordError):
        split_ack_key(key)


@pytest.mark.parametrize("key", [None, b"", b"\xff", bytes(1025)])
def test_a_channel_key_is_an_id(key: bytes | None) -> None:
    with pytest.raises(RecordError):
        split_channel_key(key)


def test_a_channel_stays_in_its_partition() -> None:
    """The function is part of the format: producers of any kind and version agree on it."""
    assert [shard_of(channel, 8) for channel in ("general", "lobby", "0", "kanal ü")] == [5, 2, 4, 1]
    assert {shard_of(f"channel {number}", 8) for number in range(200)} == set(range(8))
    assert shard_of("general", 1) == 0


# Our retrieval hint: 17 bytes that lead to one record, and nothing else is taken for one.


hints = st.builds(
    StoreHint, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.binary(min_size=4, max_size=4)
)


def test_a_hint_has_this_layout() -> None:
    hint = StoreHint.of(3, 258, b"wire").encode()
    assert hint == bytes.fromhex("4b 00000003 0000000000000102") + check_of(b"wire")
    assert len(hint) == HINT_SIZE == 17


@given(hints)
def test_a_hint_is_read_as_it_was_written(hint: StoreHint) -> None:
    assert StoreHint.parse(hint.encode()) == hint


@given(st.binary(max_size=40))
def test_only_what_we_write_is_taken_for_a_hint_of_ours(raw: bytes) -> None:
    hint = StoreHint.parse(raw)
    assert hint is None or hint.encode() == raw


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        bytes(32),  # Waku's
        bytes(17),
        b"\x4b" + bytes(15),
        b"\x4b" + bytes(17),
        b"\x4b\x80" + bytes(15),  # no such partition
        b"\x4b" + bytes(4) + b"\x80" + bytes(11),  # no such offset
    ],
)
def test_other_bytes_are_no_hint_of_ours(raw: bytes | None) -> None:
    assert StoreHint.parse(raw) is None


def test_a_row_of_the_index_gives_the_hint_that_the_message_itself_gives() -> None:
    row = SdsIndexRecord(3, 258, 1, "ann", 4, check_of(b"wire"))
    assert StoreHint.of_index(row) == StoreHint.of(3, 258, b"wire")
