"""What is written is read again, in each profile; no bytes whatever raise anything but a MessageError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.errors import MessageError
from culm_models.sds.wire.codec import Decoder, assemble, bloom_field, decode, encode, encode_entry
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile
from tests.models.sds.wire.drawn_messages import ANY_PROFILE, MESSAGES, entries


@given(MESSAGES)
def test_messages_come_back_from_their_bytes(drawn: tuple[Profile, Message]) -> None:
    profile, message = drawn
    assert decode(encode(message, profile), profile) == message


@given(MESSAGES)
def test_assembled_messages_have_the_same_bytes(drawn: tuple[Profile, Message]) -> None:
    profile, message = drawn
    before, after = assemble(
        profile,
        message.sender_id,
        message.message_id,
        message.channel_id,
        message.lamport_timestamp,
        (encode_entry(entry, profile) for entry in message.causal_history),
        message.content,
        message.repair_request,
    )
    assert before + bloom_field(message.bloom_filter, profile) + after == encode(message, profile)


def outcome(decoder: Decoder, data: bytes) -> Message | str:
    """The message that is read, or the code of the refusal."""
    try:
        return decoder.decode(data)
    except MessageError as error:
        return error.code


@given(st.binary(max_size=300), ANY_PROFILE)
def test_any_bytes_are_a_message_or_refused(data: bytes, profile: Profile) -> None:
    found = outcome(Decoder(profile), data)
    if isinstance(found, Message):
        assert decode(encode(found, profile), profile) == found


@given(MESSAGES, st.data())
def test_changed_bytes_are_a_message_or_refused(drawn: tuple[Profile, Message], data: st.DataObject) -> None:
    profile, message = drawn
    wire = bytearray(encode(message, profile))
    for place in data.draw(st.lists(st.integers(0, len(wire) - 1), min_size=1, max_size=4)):
        wire[place] = data.draw(st.integers(0, 255))
    found = outcome(Decoder(profile), bytes(wire))
    if isinstance(found, Message):
        assert decode(encode(found, profile), profile) == found


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.integers(0, 3), st.data())
def test_remembered_entries_change_no_outcome(
    drawn: list[tuple[Profile, Message]], cached_entries: int, data: st.DataObject
) -> None:
    profile = drawn[0][0]
    wires = [encode(message, own) for own, message in drawn]
    wires += [wire[: data.draw(st.integers(0, len(wire)))] for wire in wires]
    remembering = Decoder(profile, cached_entries=cached_entries)
    for wire in wires * 2:
        assert outcome(remembering, wire) == outcome(Decoder(profile, cached_entries=0), wire)


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_no_list_of_entries_is_longer_than_allowed(profile: Profile) -> None:
    wire = encode(Message("s", "i", "c", 1, content=b"x"), profile)
    one = b"\x6a\x03\x0a\x01e"
    decoder = Decoder(profile, max_entries=2)
    assert len(decoder.decode(wire + one * 2).repair_request) == 2
    assert outcome(decoder, wire + one * 3) == "sds.message.entry_count"


@given(st.lists(entries("js"), min_size=1, max_size=12), st.data())
def test_histories_that_repeat_each_other_are_read_as_alone(
    log: list[HistoryEntry], data: st.DataObject
) -> None:
    remembering = Decoder("js", max_entries=10)
    for _ in range(6):
        first = data.draw(st.integers(0, len(log)))
        history = log[first : data.draw(st.integers(first, len(log)))]
        if data.draw(st.booleans()):
            history.insert(data.draw(st.integers(0, len(history))), data.draw(st.sampled_from(log)))
        wire = encode(Message("s", "i", "c", 1, tuple(history), b"f"), "js")
        wire = wire[: data.draw(st.just(len(wire)) | st.integers(0, len(wire)))]
        assert outcome(remembering, wire) == outcome(Decoder("js", max_entries=10, cached_entries=0), wire)
