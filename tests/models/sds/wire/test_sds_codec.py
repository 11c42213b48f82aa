"""Bytes are those of @waku/sds and of the rules of nim-sds; what those read is read (tests/vectors/sds)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.conform.sds.messages import message_from_json
from culm_models.sds.errors import SdsMessageError
from culm_models.sds.wire.codec import Decoder, assemble, bloom_field, decode, encode, encode_entry
from culm_models.sds.wire.messages import PROFILES, HistoryEntry, Message, MessageKind, Profile
from tests.models.sds.wire.drawn_messages import ANY_PROFILE, MESSAGES, entries

VECTORS = Path(__file__).parents[3] / "vectors" / "sds"
JS: dict[str, Any] = json.loads((VECTORS / "js-messages.json").read_text())
NIM: dict[str, Any] = json.loads((VECTORS / "nim-messages.json").read_text())
OF_JS = {row["name"]: message_from_json(row["message"]) for row in JS["encoded"]}


def named(rows: list[dict[str, Any]]) -> list[Any]:
    """The rows as parameters of a test."""
    return [pytest.param(row, id=row["name"]) for row in rows]


@pytest.mark.parametrize("row", named(JS["encoded"]))
def test_js_messages_are_written_as_waku_sds_writes_them(row: dict[str, Any]) -> None:
    message = message_from_json(row["message"])
    wire = bytes.fromhex(row["bytes"])
    assert encode(message, "js") == wire
    assert decode(wire, "js") == message


@pytest.mark.parametrize("row", named(JS["encoded"]))
def test_spec_has_the_bytes_of_js_where_all_ids_are_there(row: dict[str, Any]) -> None:
    message = message_from_json(row["message"])
    entries = message.causal_history + message.repair_request
    ids = [message.sender_id, message.message_id, message.channel_id, *[e.message_id for e in entries]]
    if all(ids):
        assert encode(message, "spec").hex() == row["bytes"]
    else:
        with pytest.raises(SdsMessageError) as caught:
            encode(message, "spec")
        assert caught.value.code == "sds.message.field_missing"


@pytest.mark.parametrize("row", named(JS["decoded"]))
def test_js_bytes_are_read_as_waku_sds_reads_them(row: dict[str, Any]) -> None:
    wire = bytes.fromhex(row["bytes"])
    if row["message"] is None:
        with pytest.raises(SdsMessageError):
            decode(wire, "js")
        return
    decoded = decode(wire, "js")
    # It forgets that a sync had content of no bytes.
    assert replace(decoded, content=decoded.content or None) == message_from_json(row["message"])


@pytest.mark.parametrize("row", named(NIM["encoded"]))
def test_nim_messages_are_written_as_nim_sds_writes_them(row: dict[str, Any]) -> None:
    assert encode(OF_JS[row["name"]], "nim").hex() == row["bytes"]


@pytest.mark.parametrize("row", named(NIM["decoded"]))
def test_nim_bytes_are_read_as_nim_sds_reads_them(row: dict[str, Any]) -> None:
    wire = bytes.fromhex(row["bytes"])
    if row["message"] is None:
        with pytest.raises(SdsMessageError):
            decode(wire, "nim")
    else:
        assert decode(wire, "nim") == message_from_json(row["message"])


ENTRY = HistoryEntry("e", b"\x07", "s")
ALL_OF_NIM = (
    Message("s", "i", "c", 300, (ENTRY, HistoryEntry("f")), b"\x01\x02", b"x", (ENTRY,)),
    "0a0169" + "10ac02" + "1a090a0165" + "120107" + "1a0173" + "1a030a0166" + "220163" + "2a0178"
    "32020102" + "3a0173" + "6a090a0165" + "120107" + "1a0173",
)
LARGEST_OF_NIM = (
    Message("", "i", "c", 2**63 - 1, content=b"x"),
    "0a0169" + "10ffffffffffffffff7f" + "220163" + "2a0178" + "3200",
)


@pytest.mark.parametrize(("message", "wire"), [ALL_OF_NIM, LARGEST_OF_NIM], ids=["all", "largest"])
def test_nim_has_numbers_and_an_order_of_its_own(message: Message, wire: str) -> None:
    assert encode(message, "nim").hex() == wire
    assert decode(bytes.fromhex(wire), "nim") == message


def test_nim_takes_no_bytes_for_none() -> None:
    entry = HistoryEntry("e", b"", "")
    message = Message("s", "i", "c", 1, (entry,), b"", b"x")
    wire = encode(message, "nim")
    assert decode(wire, "nim") == replace(message, bloom_filter=None, causal_history=(HistoryEntry("e"),))
    assert encode(decode(wire, "nim"), "nim") == wire


def test_nim_reads_a_message_without_filter_and_sender() -> None:
    wire = bytes.fromhex("0a0169" + "1005" + "220163" + "2a0178")
    assert decode(wire, "nim") == Message("", "i", "c", 5, content=b"x")


@pytest.mark.parametrize("message_id", ["ab" * 32, "0x" + "cd" * 32, "message 1", "0" * 200])
def test_nim_reads_the_bare_ids_of_older_nim_sds(message_id: str) -> None:
    size = len(message_id)
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))
    old = b"\x1a" + length + message_id.encode()
    wire = bytes.fromhex("0a01691005") + old + encode_entry(ENTRY, "nim") + bytes.fromhex("2201632a0178")
    assert decode(wire, "nim").causal_history == (HistoryEntry(message_id), ENTRY)


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_parts_and_filter_make_the_message(profile: Profile) -> None:
    history = (ENTRY, HistoryEntry("f"))
    message = Message("s", "i", "c", 5, history, b"\x01", b"x", (ENTRY,))
    entries = [encode_entry(entry, profile) for entry in history]
    before, after = assemble(profile, "s", "i", "c", 5, entries, b"x", (ENTRY,))
    assert before + bloom_field(b"\x01", profile) + after == encode(message, profile)


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_absent_filter_is_written_as_the_profile_does(profile: Profile) -> None:
    assert bloom_field(None, profile) == (b"\x32\x00" if profile == "nim" else b"")


def test_int32_timestamps_of_the_older_text_are_read() -> None:
    # The largest int32, and a negative one: ten bytes, which as 64 bits are far ahead of any time.
    start = bytes.fromhex("0a0173" + "120169" + "1a0163")
    assert decode(start + bytes.fromhex("50ffffffff07"), "spec").lamport_timestamp == 2**31 - 1
    negative = decode(start + bytes.fromhex("50ffffffffffffffffff01"), "spec")
    assert negative.lamport_timestamp == 2**64 - 1


def test_entries_read_before_are_the_same_objects() -> None:
    decoder = Decoder("js")
    wire = encode(Message("s", "i", "c", 5, (ENTRY,)), "js")
    first, second = decoder.decode(wire), decoder.decode(wire)
    assert first.causal_history[0] is second.causal_history[0]


# What is written is read again, in each profile; no bytes whatever raise anything but a SdsMessageError.


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
    except SdsMessageError as error:
        return error.code


@given(st.binary(max_size=300), ANY_PROFILE)
def test_any_bytes_are_a_message_or_refused(data: bytes, profile: Profile) -> None:
    decoded = outcome(Decoder(profile), data)
    if isinstance(decoded, Message):
        assert decode(encode(decoded, profile), profile) == decoded


@given(MESSAGES, st.data())
def test_changed_bytes_are_a_message_or_refused(drawn: tuple[Profile, Message], data: st.DataObject) -> None:
    profile, message = drawn
    wire = bytearray(encode(message, profile))
    for position in data.draw(st.lists(st.integers(0, len(wire) - 1), min_size=1, max_size=4)):
        wire[position] = data.draw(st.integers(0, 255))
    decoded = outcome(Decoder(profile), bytes(wire))
    if isinstance(decoded, Message):
        assert decode(encode(decoded, profile), profile) == decoded


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
    entry = b"\x6a\x03\x0a\x01e"
    decoder = Decoder(profile, max_entries=2)
    assert len(decoder.decode(wire + entry * 2).repair_request) == 2
    assert outcome(decoder, wire + entry * 3) == "sds.message.entry_count"


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


# What kind of message it is follows from which parts are there.


@pytest.mark.parametrize(
    ("lamport", "content", "kind"),
    [
        (1, b"x", "content"),
        (0, b"x", "content"),
        (1, None, "sync"),
        (0, b"", "sync"),
        (None, b"x", "ephemeral"),
    ],
)
def test_kind_follows_from_lamport_and_content(
    lamport: int | None, content: bytes | None, kind: MessageKind
) -> None:
    assert Message("a", "b", "c", lamport, content=content).kind == kind


@pytest.mark.parametrize(("profile", "now"), [("spec", 1_763_760_000_999), ("nim", 1_763_760_000)])
def test_lamport_is_time_in_the_unit_of_the_profile(profile: str, now: int) -> None:
    facts = PROFILES["spec" if profile == "spec" else "nim"]
    assert facts.lamport_now(1_763_760_000_999) == now
    assert facts.lamport_to_send(5, 1_763_760_000_999) == now
    assert facts.lamport_to_send(now, 1_763_760_000_999) == now + 1, "never twice the same"
    assert facts.lamport_to_send(now + 9, 1_763_760_000_999) == now + 10


def test_nim_steps_over_what_it_receives_and_the_others_stand_at_it() -> None:
    after = {name: (facts.lamport_after(5, 9), facts.lamport_after(9, 5)) for name, facts in PROFILES.items()}
    assert after == {"spec": (9, 9), "js": (9, 9), "nim": (10, 10)}
