"""Messages out of a byte stream, wherever it is cut, and how a fault ends it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.errors import CulmError
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import Announce, EntryMessage, Have, Message, SyncDone, SyncRequest
from tests.support.logs import SCHEMA

MESSAGES: tuple[Message, ...] = (
    Announce(1, 1_700_000_000, (SCHEMA,)),
    SyncRequest(0, 0, (SCHEMA,)),
    Have(0, ((b"\x07" * 32, 300, 70_000),)),
    EntryMessage(0, bytes(170), bytes(300)),
    EntryMessage(1000, bytes(2), b""),
    SyncDone(0, True),
)
WIRE = b"".join(map(codec.encode, MESSAGES))


@pytest.mark.parametrize("compat", ["spec", "aquadoggo"])
def test_split_at_every_byte(compat: codec.Compat) -> None:
    wire = b"".join(codec.encode(message, compat) for message in MESSAGES)
    for cut in range(len(wire) + 1):
        stream = MessageStream()
        assert [*stream.feed(wire[:cut]), *stream.feed(wire[cut:])] == list(MESSAGES)
        assert stream.pending == 0


def test_one_byte_at_a_time() -> None:
    stream = MessageStream()
    assert [message for at in range(len(WIRE)) for message in stream.feed(WIRE[at : at + 1])] == list(
        MESSAGES
    )


@given(st.lists(st.integers(0, len(WIRE)), max_size=12))
def test_any_split(cuts: list[int]) -> None:
    stream = MessageStream()
    edges = [0, *sorted(cuts), len(WIRE)]
    found = [message for start, end in pairwise(edges) for message in stream.feed(WIRE[start:end])]
    assert found == list(MESSAGES)


@given(st.lists(st.integers(0, len(WIRE)), max_size=12), st.integers(1, 4))
def test_a_bounded_number_of_messages_is_decoded_at_once_and_none_is_lost(
    cuts: list[int], limit: int
) -> None:
    stream = MessageStream()
    received: list[Message] = []
    for start, end in pairwise([0, *sorted(cuts), len(WIRE)]):
        received += stream.feed(WIRE[start:end], limit)
    while stream.is_left:
        received += stream.feed(b"", limit)
    assert received == list(MESSAGES)


def test_a_long_run_of_small_messages_is_decoded_in_parts() -> None:
    small = codec.encode(SyncDone(0, True))
    stream = MessageStream()
    assert len(stream.feed(small * 1_000, 300)) == 300
    assert stream.is_left
    assert len(stream.feed(b"", 300)) == 300
    assert len(stream.feed(small)) == 401
    assert not stream.is_left


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (b"\xff", "p2panda.message.malformed"),
        (b"\x9f", "p2panda.message.malformed"),
        (b"\x00", "p2panda.message.malformed"),
        (b"\x82\x04\x00", "p2panda.message.unknown_type"),
        (b"\x5a\xff\xff\xff\xff", "p2panda.message.too_large"),
        (b"\x9b" + b"\xff" * 8, "p2panda.message.too_large"),
    ],
)
def test_a_fault_ends_the_stream_after_what_came_before_it(fault: bytes, code: str) -> None:
    stream = MessageStream()
    assert stream.feed(WIRE + fault + WIRE) == list(MESSAGES)
    assert stream.error is not None and stream.error.code == code
    for _ in range(2):
        with pytest.raises(CulmError) as caught:
            stream.feed(WIRE)
        assert caught.value.code == code


def test_a_fault_without_anything_before_it_is_raised_at_once() -> None:
    with pytest.raises(CulmError):
        MessageStream().feed(b"\xff")


def test_the_limit_is_on_one_message_and_not_on_the_stream() -> None:
    data = codec.encode_entry_message(0, bytes(50), bytes(50))
    stream = MessageStream(len(data))
    assert len(stream.feed(data * 100)) == 100
    with pytest.raises(CulmError) as caught:
        MessageStream(len(data) - 1).feed(data)
    assert caught.value.code == "p2panda.message.too_large"
