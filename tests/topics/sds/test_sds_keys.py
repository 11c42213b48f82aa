"""Keys of the SDS topics: read again as written, and refused in any other shape."""

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
    shard_of,
    split_ack_key,
    split_channel_key,
    split_index_key,
)

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
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (index_key(*one) == index_key(*other)) == (one == other)


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
