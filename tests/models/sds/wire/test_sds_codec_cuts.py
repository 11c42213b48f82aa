"""A message that is cut is refused, or is exactly what stands before the cut."""

from __future__ import annotations

from itertools import pairwise

import pytest

from culm_models.sds.errors import MessageError
from culm_models.sds.wire.codec import Decoder, decode, encode
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile

ENTRIES = (HistoryEntry("e1", b"hint", "bob"), HistoryEntry("e2" * 70), HistoryEntry("e3", b"\x00"))
WHOLE = Message("alice", "m1", "канал", 1_763_760_000_000, ENTRIES, b"\xff" * 130, b"ok", ENTRIES[:2])


def number(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and the position behind it."""
    value = shift = 0
    while data[position] & 0x80:
        value |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | data[position] << shift, position + 1


def ends(wire: bytes) -> list[int]:
    """The positions between fields: the first, those behind each field."""
    found = [0]
    while found[-1] < len(wire):
        tag, position = number(wire, found[-1])
        size, position = number(wire, position)
        found.append(position if tag & 7 == 0 else position + size)
    assert found[-1] == len(wire)
    return found


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_cut_inside_a_field_is_truncated(profile: Profile) -> None:
    wire = encode(WHOLE, profile)
    whole_fields = set(ends(wire))
    decoder = Decoder(profile)
    assert decoder.decode(wire) == WHOLE
    for size in set(range(len(wire))) - whole_fields:
        for read in (lambda data: decode(data, profile), decoder.decode):
            with pytest.raises(MessageError) as caught:
                read(wire[:size])
            assert caught.value.code == "sds.message.truncated", size


def without_end(message: Message) -> list[Message]:
    """The message with fewer and fewer of the fields that stand at its end in spec and js."""
    ids = (message.sender_id, message.message_id, message.channel_id, message.lamport_timestamp)
    history, bloom, repair = message.causal_history, message.bloom_filter, message.repair_request
    return [
        *[Message(*ids, history, bloom, None, repair[:count]) for count in reversed(range(len(repair) + 1))],
        *[Message(*ids, history[:count]) for count in reversed(range(len(history) + 1))],
    ]


@pytest.mark.parametrize("profile", ["spec", "js"])
def test_cut_between_fields_is_what_stands_before(profile: Profile) -> None:
    wire = encode(WHOLE, profile)
    at = ends(wire)[-2::-1]
    expected = without_end(WHOLE)
    for size, message in zip(at, expected, strict=False):
        assert decode(wire[:size], profile) == message
    # Without the Lamport timestamp, which is then the last field, it is nothing.
    for size in at[len(expected) :]:
        with pytest.raises(MessageError) as caught:
            decode(wire[:size], profile)
        assert caught.value.code in ("sds.message.kind", "sds.message.field_missing")


def test_cut_between_fields_of_nim_lacks_content_until_content_is_there() -> None:
    wire = encode(WHOLE, "nim")
    for size in ends(wire)[:-1]:
        if size <= wire.index(b"\x2a\x02ok"):
            with pytest.raises(MessageError) as caught:
                decode(wire[:size], "nim")
            assert caught.value.code == "sds.message.field_missing"
        else:
            assert decode(wire[:size], "nim").content == b"ok"


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_fields_may_come_in_any_order(profile: Profile) -> None:
    wire = encode(WHOLE, profile)
    fields = [wire[start:end] for start, end in pairwise(ends(wire))]
    # Entries keep their order among themselves, so the repeated fields are taken out and put at an end.
    lists = {field[0] for field in fields if fields[0][0] != field[0] and encoded_entries(profile, field[0])}
    repeated = [field for field in fields if field[0] in lists]
    single = [field for field in fields if field[0] not in lists]
    assert len(repeated) == len(ENTRIES) + 2
    assert decode(b"".join(repeated + single[::-1]), profile) == WHOLE
    assert decode(b"".join(single[::-1] + repeated), profile) == WHOLE


def encoded_entries(profile: Profile, tag: int) -> bool:
    """Whether a tag is that of a list of entries."""
    return tag in ((0x1A, 0x6A) if profile == "nim" else (0x5A, 0x6A))


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_the_last_of_a_repeated_field_is_taken(profile: Profile) -> None:
    other = Message("eve", "m2", "c", 7, (), b"\x01", b"no")
    assert decode(encode(other, profile) + encode(WHOLE, profile), profile) == WHOLE
