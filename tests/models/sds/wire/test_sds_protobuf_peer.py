"""Google's protobuf library, told of the messages in its own way, writes and reads the same bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.errors import SdsMessageError
from culm_models.sds.wire.codec import decode, encode
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile
from tests.models.sds.wire.drawn_messages import messages

REASON = "the protobuf library comes with the extra `streaming`"
descriptor_pb2: Any = pytest.importorskip("google.protobuf.descriptor_pb2", reason=REASON)
descriptor_pool: Any = pytest.importorskip("google.protobuf.descriptor_pool", reason=REASON)
message_factory: Any = pytest.importorskip("google.protobuf.message_factory", reason=REASON)
DecodeError: type[Exception] = pytest.importorskip("google.protobuf.message", reason=REASON).DecodeError

FIELD = descriptor_pb2.FieldDescriptorProto
STRING, BYTES, UINT64, MESSAGE = FIELD.TYPE_STRING, FIELD.TYPE_BYTES, FIELD.TYPE_UINT64, FIELD.TYPE_MESSAGE
Row = tuple[str, int, int, str]

ENTRY_ROWS: list[Row] = [
    ("message_id", 1, STRING, "plain"),
    ("retrieval_hint", 2, BYTES, "optional"),
    ("sender_id", 3, STRING, "optional"),
]
MESSAGE_ROWS: list[Row] = [
    ("sender_id", 1, STRING, "plain"),
    ("message_id", 2, STRING, "plain"),
    ("channel_id", 3, STRING, "plain"),
    ("lamport_timestamp", 10, UINT64, "optional"),
    ("causal_history", 11, MESSAGE, "repeated"),
    ("bloom_filter", 12, BYTES, "optional"),
    ("repair_request", 13, MESSAGE, "repeated"),
    ("content", 20, BYTES, "optional"),
]


def describe(message: Any, name: str, rows: list[Row]) -> None:
    """Fill the description of a message type."""
    message.name = name
    for field_name, number, kind, presence in rows:
        field = message.field.add(name=field_name, number=number, type=kind)
        field.label = FIELD.LABEL_REPEATED if presence == "repeated" else FIELD.LABEL_OPTIONAL
        if kind == MESSAGE:
            field.type_name = ".sds.HistoryEntry"
        if presence == "optional":
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field_name}")


def peer_class() -> Any:
    """Google's class of the specification's message."""
    file = descriptor_pb2.FileDescriptorProto(name="sds.proto", package="sds", syntax="proto3")
    describe(file.message_type.add(), "HistoryEntry", ENTRY_ROWS)
    describe(file.message_type.add(), "Message", MESSAGE_ROWS)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sds.Message"))


Peer = peer_class()


def optional(message: Any, name: str) -> Any:
    """The value of a field, or None where it is absent."""
    return getattr(message, name) if message.HasField(name) else None


def entry_of(entry: Any) -> HistoryEntry:
    """A history entry as Culm has it."""
    return HistoryEntry(entry.message_id, optional(entry, "retrieval_hint"), optional(entry, "sender_id"))


def message_of(message: Any) -> Message:
    """A message as Culm has it."""
    return Message(
        message.sender_id,
        message.message_id,
        message.channel_id,
        optional(message, "lamport_timestamp"),
        tuple(map(entry_of, message.causal_history)),
        optional(message, "bloom_filter"),
        optional(message, "content"),
        tuple(map(entry_of, message.repair_request)),
    )


def peer_of(message: Message) -> Any:
    """A message as Google's library has it."""

    def fill(into: Any, source: Any, rows: list[Row]) -> Any:
        for name, _, kind, _ in rows:
            value = getattr(source, name)
            if kind == MESSAGE:
                for entry in value:
                    fill(getattr(into, name).add(), entry, ENTRY_ROWS)
            elif value is not None:
                setattr(into, name, value)
        return into

    return fill(Peer(), message, MESSAGE_ROWS)


@pytest.mark.parametrize("profile", ["spec", "js"])
def test_the_peer_writes_our_bytes_and_reads_them(profile: Profile) -> None:
    @given(messages(profile))
    def check(message: Message) -> None:
        wire = encode(message, profile)
        assert peer_of(message).SerializeToString(deterministic=True) == wire
        assert message_of(Peer.FromString(wire)) == message

    check()


@given(messages("js"), st.data())
def test_what_we_read_of_changed_bytes_the_peer_reads_too(message: Message, data: st.DataObject) -> None:
    wire = bytearray(encode(message, "js"))
    for position in data.draw(st.lists(st.integers(0, len(wire) - 1), max_size=3)):
        wire[position] = data.draw(st.integers(0, 255))
    try:
        decoded = decode(bytes(wire), "js")
    except SdsMessageError:
        return
    assert message_of(Peer.FromString(bytes(wire))) == decoded


@given(st.binary(max_size=60))
def test_what_the_peer_refuses_we_refuse(data: bytes) -> None:
    wire = b"\x50\x01" + data
    try:
        Peer.FromString(wire)
    except DecodeError:
        with pytest.raises(SdsMessageError):
            decode(wire, "js")
