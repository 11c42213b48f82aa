"""Bytes that are no message are refused, each for its own reason; so are messages that cannot be said."""

from __future__ import annotations

from itertools import pairwise

import pytest

from culm_models.sds.errors import SdsMessageError
from culm_models.sds.wire.codec import MAX_ENTRIES, Decoder, decode, encode
from culm_models.sds.wire.fields import MAX_ID_BYTES
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile

SPEC_IDS = "0a0173" + "120169" + "1a0163"
NIM_START = "0a0169" + "1005" + "220163" + "2a0178"
LONG = "61" * (MAX_ID_BYTES + 1)
LONG_LENGTH = "8108"  # 1,025

MALFORMED: list[tuple[str, Profile, str, str]] = [
    ("no bytes", "spec", "", "field_missing"),
    ("no bytes", "js", "", "kind"),
    ("no bytes", "nim", "", "field_missing"),
    ("ids alone", "spec", SPEC_IDS, "kind"),
    ("ids and empty content", "js", SPEC_IDS + "a20100", "kind"),
    ("no sender", "spec", "120169" + "1a0163" + "5001", "field_missing"),
    ("empty sender", "spec", "0a00" + "120169" + "1a0163" + "5001", "field_missing"),
    ("no message id", "spec", "0a0173" + "1a0163" + "5001", "field_missing"),
    ("no channel", "spec", "0a0173" + "120169" + "5001", "field_missing"),
    ("last sender empty", "spec", SPEC_IDS + "5001" + "0a00", "field_missing"),
    ("entry without id", "spec", SPEC_IDS + "5001" + "5a00", "field_missing"),
    ("entry of an empty id", "spec", SPEC_IDS + "5001" + "5a020a00", "field_missing"),
    ("repair request without id", "spec", SPEC_IDS + "5001" + "6a03120107", "field_missing"),
    ("no message id", "nim", "1005" + "220163" + "2a0178", "field_missing"),
    ("no timestamp", "nim", "0a0169" + "220163" + "2a0178", "field_missing"),
    ("no channel", "nim", "0a0169" + "1005" + "2a0178", "field_missing"),
    ("no content", "nim", "0a0169" + "1005" + "220163", "field_missing"),
    ("entry without id", "nim", NIM_START + "1a03120107", "field_missing"),
    ("empty entry", "nim", NIM_START + "1a00", "field_missing"),
    ("timestamp below zero", "nim", NIM_START + "10ffffffffffffffffff01", "lamport_range"),
    ("timestamp of 65 bits", "spec", SPEC_IDS + "50ffffffffffffffffff03", "malformed"),
    ("timestamp of eleven bytes", "spec", SPEC_IDS + "50ffffffffffffffffffff01", "malformed"),
    ("tag of six bytes", "spec", SPEC_IDS + "5001" + "d08080808000", "malformed"),
    ("tag of 33 bits", "spec", SPEC_IDS + "5001" + "f8ffffff1f00", "malformed"),
    ("field number 0", "spec", SPEC_IDS + "5001" + "0001", "malformed"),
    ("field number 0 in an entry", "spec", SPEC_IDS + "5001" + "5a050a01650001", "malformed"),
    ("wire type 6", "spec", SPEC_IDS + "5001" + "26", "malformed"),
    ("wire type 7", "spec", SPEC_IDS + "5001" + "27", "malformed"),
    ("number with more bytes than needed", "nim", NIM_START + "10858000", "malformed"),
    ("length with more bytes than needed", "nim", NIM_START + "2a818000" + "78", "malformed"),
    ("length of an entry with more", "nim", NIM_START + "1a8300" + "0a0165", "malformed"),
    ("tag with more bytes than needed", "nim", NIM_START + "9000" + "05", "malformed"),
    ("unknown group", "nim", NIM_START + "4b4c", "malformed"),
    ("unknown number with more", "nim", NIM_START + "408000", "malformed"),
    ("end of no group", "spec", SPEC_IDS + "5001" + "24", "malformed"),
    ("end of another group", "spec", SPEC_IDS + "5001" + "232c", "malformed"),
    ("group in groups", "spec", SPEC_IDS + "5001" + "23" * 33 + "24" * 33, "malformed"),
    ("group without end", "spec", SPEC_IDS + "5001" + "230801", "truncated"),
    ("cut in a tag", "spec", SPEC_IDS + "5001" + "a2", "truncated"),
    ("cut before a length", "spec", SPEC_IDS + "5001" + "a201", "truncated"),
    ("cut in a length", "spec", SPEC_IDS + "5001" + "a20180", "truncated"),
    ("cut in content", "spec", SPEC_IDS + "5001" + "a2010278", "truncated"),
    ("length of 2^64 - 1", "spec", SPEC_IDS + "5001" + "a201ffffffffffffffffff01", "truncated"),
    ("length of 65 bits", "spec", SPEC_IDS + "5001" + "a201ffffffffffffffffff02", "malformed"),
    ("cut in a timestamp", "spec", SPEC_IDS + "50ff", "truncated"),
    ("cut before the length of an entry", "spec", SPEC_IDS + "5001" + "5a", "truncated"),
    ("cut in the length of an entry", "spec", SPEC_IDS + "5001" + "5a80", "truncated"),
    ("cut in an entry", "spec", SPEC_IDS + "5001" + "5a040a0165", "truncated"),
    ("entry cut in its id", "spec", SPEC_IDS + "5001" + "5a030a0265", "truncated"),
    ("entry cut in its hint", "spec", SPEC_IDS + "5001" + "5a060a0165120207", "truncated"),
    ("entry cut in its tag", "spec", SPEC_IDS + "5001" + "5a040a016580", "truncated"),
    ("repair request cut in its id", "spec", SPEC_IDS + "5001" + "6a030a0265", "truncated"),
    ("unknown fixed64 cut", "spec", SPEC_IDS + "5001" + "2101020304050607", "truncated"),
    ("unknown fixed32 cut", "spec", SPEC_IDS + "5001" + "25010203", "truncated"),
    ("unknown bytes cut", "spec", SPEC_IDS + "5001" + "220401", "truncated"),
    ("unknown varint cut", "spec", SPEC_IDS + "5001" + "2080", "truncated"),
    ("sender as number", "spec", "0801" + "120169" + "1a0163" + "5001", "wire_type"),
    ("timestamp as bytes", "spec", SPEC_IDS + "520101", "wire_type"),
    ("timestamp as fixed64", "spec", SPEC_IDS + "510102030405060708", "wire_type"),
    ("entry as number", "spec", SPEC_IDS + "5001" + "5801", "wire_type"),
    ("filter as fixed32", "spec", SPEC_IDS + "5001" + "6501020304", "wire_type"),
    ("content as group", "spec", SPEC_IDS + "5001" + "a301a401", "wire_type"),
    ("id of an entry as number", "spec", SPEC_IDS + "5001" + "5a020801", "wire_type"),
    ("nim's numbers", "js", NIM_START + "3200" + "3a0173", "wire_type"),
    ("js's numbers", "nim", SPEC_IDS + "5001" + "a2010178", "wire_type"),
    ("sender not UTF-8", "spec", "0a01ff" + "120169" + "1a0163" + "5001", "text"),
    ("half a surrogate pair", "js", SPEC_IDS + "5001" + "1203eda080", "text"),
    ("overlong UTF-8", "spec", SPEC_IDS + "5001" + "5a040a02c080", "text"),
    ("sender of an entry not UTF-8", "spec", SPEC_IDS + "5001" + "5a060a01651a01ff", "text"),
    ("long message id", "spec", SPEC_IDS + "5001" + "12" + LONG_LENGTH + LONG, "id_size"),
    ("long id of an entry", "js", SPEC_IDS + "5001" + "5a84080a" + LONG_LENGTH + LONG, "id_size"),
    ("long hint", "js", SPEC_IDS + "5001" + "5a840812" + LONG_LENGTH + LONG, "id_size"),
    ("long sender of an entry", "js", SPEC_IDS + "5001" + "6a84081a" + LONG_LENGTH + LONG, "id_size"),
]


@pytest.mark.parametrize(
    ("profile", "wire", "code"), [pytest.param(*row[1:], id=f"{row[1]}: {row[0]}") for row in MALFORMED]
)
def test_malformed_bytes_are_refused(profile: Profile, wire: str, code: str) -> None:
    for read in (lambda data: decode(data, profile), Decoder(profile).decode):
        with pytest.raises(SdsMessageError) as caught:
            read(bytes.fromhex(wire))
        assert caught.value.code == f"sds.message.{code}"


def test_more_bytes_than_allowed_are_refused_unread() -> None:
    wire = bytes.fromhex(SPEC_IDS + "5001")
    assert decode(wire, "spec", max_bytes=len(wire)).lamport_timestamp == 1
    with pytest.raises(SdsMessageError) as caught:
        decode(wire, "spec", max_bytes=len(wire) - 1)
    assert caught.value.code == "sds.message.too_large"


@pytest.mark.parametrize("field", ["5a", "6a"])
@pytest.mark.parametrize("between", ["", "2001"])
def test_more_entries_than_allowed_are_refused(field: str, between: str) -> None:
    wire = bytes.fromhex(SPEC_IDS + "5001" + (field + "030a0165" + between) * MAX_ENTRIES)
    message = decode(wire, "spec")
    assert len(message.causal_history) + len(message.repair_request) == MAX_ENTRIES
    with pytest.raises(SdsMessageError) as caught:
        decode(wire + bytes.fromhex(field + "030a0165"), "spec")
    assert caught.value.code == "sds.message.entry_count"


def test_an_entry_that_is_cut_is_not_taken_for_a_known_shorter_one() -> None:
    decoder = Decoder("js")
    decoder.decode(bytes.fromhex(SPEC_IDS + "5001" + "5a030a0165"))
    with pytest.raises(SdsMessageError) as caught:
        decoder.decode(bytes.fromhex(SPEC_IDS + "5001" + "5a040a0165"))
    assert caught.value.code == "sds.message.truncated"


UNSAYABLE: list[tuple[str, Profile, Message, str]] = [
    ("neither timestamp nor content", "spec", Message("s", "i", "c"), "kind"),
    ("neither timestamp nor content", "js", Message("s", "i", "c", content=b""), "kind"),
    ("no timestamp", "nim", Message("s", "i", "c", content=b"x"), "field_missing"),
    ("empty sender", "spec", Message("", "i", "c", 1), "field_missing"),
    ("empty message id", "spec", Message("s", "", "c", 1), "field_missing"),
    ("empty channel", "spec", Message("s", "i", "", 1), "field_missing"),
    ("entry of an empty id", "spec", Message("s", "i", "c", 1, (HistoryEntry(""),)), "field_missing"),
    ("timestamp below zero", "js", Message("s", "i", "c", -1), "lamport_range"),
    ("timestamp of 65 bits", "js", Message("s", "i", "c", 1 << 64), "lamport_range"),
    ("timestamp of 64 bits", "nim", Message("s", "i", "c", 1 << 63), "lamport_range"),
    ("half a surrogate pair", "js", Message("s", "\ud800", "c", 1), "text"),
    ("long id", "js", Message("s" * (MAX_ID_BYTES + 1), "i", "c", 1), "id_size"),
    ("long hint", "js", Message("s", "i", "c", 1, (HistoryEntry("e", bytes(1_025)),)), "id_size"),
]


@pytest.mark.parametrize(
    ("profile", "message", "code"), [pytest.param(*row[1:], id=f"{row[1]}: {row[0]}") for row in UNSAYABLE]
)
def test_messages_that_a_profile_cannot_say_are_refused(
    profile: Profile, message: Message, code: str
) -> None:
    with pytest.raises(SdsMessageError) as caught:
        encode(message, profile)
    assert caught.value.code == f"sds.message.{code}"


# A message that is cut is refused, or is exactly what stands before the cut.


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
    positions = [0]
    while positions[-1] < len(wire):
        tag, position = number(wire, positions[-1])
        size, position = number(wire, position)
        positions.append(position if tag & 7 == 0 else position + size)
    assert positions[-1] == len(wire)
    return positions


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_cut_inside_a_field_is_truncated(profile: Profile) -> None:
    wire = encode(WHOLE, profile)
    whole_fields = set(ends(wire))
    decoder = Decoder(profile)
    assert decoder.decode(wire) == WHOLE
    for size in set(range(len(wire))) - whole_fields:
        for read in (lambda data: decode(data, profile), decoder.decode):
            with pytest.raises(SdsMessageError) as caught:
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
        with pytest.raises(SdsMessageError) as caught:
            decode(wire[:size], profile)
        assert caught.value.code in ("sds.message.kind", "sds.message.field_missing")


def test_cut_between_fields_of_nim_lacks_content_until_content_is_there() -> None:
    wire = encode(WHOLE, "nim")
    for size in ends(wire)[:-1]:
        if size <= wire.index(b"\x2a\x02ok"):
            with pytest.raises(SdsMessageError) as caught:
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
