"""Messages as bytes and back, in each of the three wire profiles (specification "Message"; `messages`).

Encoded messages equal, byte for byte, those of the implementations of the profile. Fields are read in any
order, unknown ones are skipped, and the last of a repeated field counts. `Malformed` messages raise a
`MessageError`; no bytes raise anything else.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from culm_models.frozen import unfrozen
from culm_models.sds.errors import (
    FieldMissingError,
    LamportRangeError,
    MalformedSdsMessageError,
    MessageKindError,
    SdsMessageTooLargeError,
    TruncatedSdsMessageError,
    WireTypeError,
)
from culm_models.sds.wire.fields import (
    HistoryEntryReader,
    entry_body,
    id_bytes,
    read_id,
    read_length,
    read_tag,
    read_varint,
    skip,
    with_length,
)
from culm_models.sds.wire.messages import (
    NAMES,
    NUMBERS,
    PROFILES,
    TAG_BYTES,
    TAGS,
    TEXT_FIELDS,
    HistoryEntry,
    Message,
    Profile,
    WireProfile,
)
from culm_models.varint import write_varint

DEFAULT_MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 10_000
_REMEMBERED_ENTRIES: Final = 1_024
_UnfrozenMessage: Final = unfrozen(Message)


class Decoder:
    """Reads the messages of one profile; remembers history entries, so that repeated ones cost little.

    At most `cached_entries` are remembered, fewer if histories are short; with 0 it remembers nothing.
    """

    __slots__ = ("_facts", "_history_tag", "_max_bytes", "_names", "_numbers", "_reader", "_strict")

    def __init__(
        self,
        profile: Profile,
        *,
        max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        max_entries: int = MAX_ENTRIES,
        cached_entries: int = _REMEMBERED_ENTRIES,
    ) -> None:
        self._facts = PROFILES[profile]
        self._names = NAMES[profile]
        self._numbers = NUMBERS[profile]
        self._history_tag = TAGS[profile]["causal_history"]
        self._strict = self._facts.strict
        self._max_bytes = max_bytes
        self._reader = HistoryEntryReader(profile, max_entries, cached_entries)

    def decode(self, data: bytes) -> Message:
        """Decode a message. Raises `MessageError` for malformed bytes."""
        if len(data) > self._max_bytes:
            raise SdsMessageTooLargeError(f"{len(data)} bytes, at most {self._max_bytes} are taken")
        values: dict[str, Any] = {}
        entries: dict[str, list[HistoryEntry]] = {"causal_history": [], "repair_request": []}
        names = self._names
        size = len(data)
        position = 0
        # Tags of up to two bytes and lengths of one are read in place.
        while position < size:
            field_tag = data[position]
            if field_tag == self._history_tag:
                position = self._reader.read_run(data, position, entries["causal_history"])
                continue
            position += 1
            if field_tag >= 0x80:
                if position < size and 0 < (high := data[position]) < 0x80:
                    field_tag = high << 7 | field_tag & 0x7F
                    position += 1
                else:
                    field_tag, position = read_tag(data, position - 1, self._strict)
            name = names.get(field_tag)
            if name is None:
                position = self._pass(data, position, field_tag)
            elif name == "lamport_timestamp":
                values[name], position = read_varint(data, position, self._strict)
            else:
                if position < size and (length := data[position]) < 0x80:
                    start = position + 1
                    position = start + length
                    if position > size:
                        raise TruncatedSdsMessageError("a field is longer than what follows")
                else:
                    start, position = read_length(data, position, self._strict)
                value = data[start:position]
                if name in TEXT_FIELDS:
                    values[name] = read_id(value)
                elif name in entries:
                    self._reader.read_one(value, entries[name])
                else:
                    values[name] = value
        return self._checked(values, entries)

    def _pass(self, data: bytes, position: int, field_tag: int) -> int:
        number = field_tag >> 3
        if number == 0:
            raise MalformedSdsMessageError("a field has the number 0")
        if number in self._numbers:
            raise WireTypeError(f"field {number} has the wire type {field_tag & 7}")
        return skip(data, position, field_tag, self._strict)

    def _checked(self, values: dict[str, Any], entries: dict[str, list[HistoryEntry]]) -> Message:
        facts = self._facts
        if not facts.required <= values.keys() or not all(map(values.get, facts.required_filled)):
            raise FieldMissingError(f"a message of profile {facts.name} has {', '.join(facts.required)}")
        lamport = values.get("lamport_timestamp")
        content = values.get("content")
        bloom_filter = values.get("bloom_filter")
        if lamport is None:
            if not content:
                raise MessageKindError("neither a Lamport timestamp nor content")
        elif lamport > facts.lamport_max:
            raise LamportRangeError(f"the Lamport timestamp is larger than {facts.lamport_max}")
        if facts.empty_is_absent:
            content = content or None
            bloom_filter = bloom_filter or None
        message = _UnfrozenMessage(
            values.get("sender_id", ""),
            values.get("message_id", ""),
            values.get("channel_id", ""),
            lamport,
            tuple(entries["causal_history"]),
            bloom_filter,
            content,
            tuple(entries["repair_request"]),
        )
        message.__class__ = Message
        return message  # type: ignore[no-any-return]


def encode(message: Message, profile: Profile) -> bytes:
    """Encode a message. Raises `MessageError` for a message that this profile cannot express."""
    before, after = assemble(
        profile,
        message.sender_id,
        message.message_id,
        message.channel_id,
        message.lamport_timestamp,
        [encode_entry(entry, profile) for entry in message.causal_history],
        message.content,
        message.repair_request,
    )
    return b"".join((before, bloom_field(message.bloom_filter, profile), after))


def encode_entry(entry: HistoryEntry, profile: Profile) -> bytes:
    """Encode one entry of the causal history with its tag and length, as `assemble` takes it."""
    return with_length(TAG_BYTES[profile]["causal_history"], entry_body(entry, profile))


def bloom_field(value: bytes | None, profile: Profile) -> bytes:
    """Encode the field of the bloom filter, which belongs between the two parts from `assemble`."""
    if value is None:
        if not PROFILES[profile].empty_is_absent:
            return b""
        value = b""
    return with_length(TAG_BYTES[profile]["bloom_filter"], value)


def assemble(
    profile: Profile,
    sender_id: str,
    message_id: str,
    channel_id: str,
    lamport: int | None,
    history: Iterable[bytes],
    content: bytes | None,
    repair: Iterable[HistoryEntry] = (),
) -> tuple[bytes, bytes]:
    """Encode a message before and behind its bloom filter; `history` has results of `encode_entry`."""
    facts = PROFILES[profile]
    tags = TAG_BYTES[profile]
    if facts.empty_is_absent:
        content = content or b""
    elif lamport is None and not content:
        raise MessageKindError("neither a Lamport timestamp nor content")
    fields = {
        "sender_id": _id_field(facts, tags, "sender_id", sender_id),
        "message_id": _id_field(facts, tags, "message_id", message_id),
        "channel_id": _id_field(facts, tags, "channel_id", channel_id),
        "lamport_timestamp": _lamport_field(facts, tags["lamport_timestamp"], lamport),
        "causal_history": b"".join(history),
        "content": b"" if content is None else with_length(tags["content"], content),
        "repair_request": b"".join(
            [with_length(tags["repair_request"], entry_body(entry, profile)) for entry in repair]
        ),
    }
    return (
        b"".join([fields[name] for name in facts.before_bloom]),
        b"".join([fields[name] for name in facts.after_bloom]),
    )


def _id_field(facts: WireProfile, tags: Mapping[str, bytes], name: str, value: str) -> bytes:
    if not value and name in facts.required_filled:
        raise FieldMissingError(f"the {name} is empty")
    # nim writes all required fields; other empty fields are left out, as protobuf does.
    if not value and name not in facts.required:
        return b""
    return with_length(tags[name], id_bytes(value))


def _lamport_field(facts: WireProfile, tag_bytes: bytes, lamport: int | None) -> bytes:
    if lamport is None:
        if "lamport_timestamp" in facts.required:
            raise FieldMissingError(f"profile {facts.name} has no message without a Lamport timestamp")
        return b""
    if not 0 <= lamport <= facts.lamport_max:
        raise LamportRangeError(f"the Lamport timestamp {lamport} is not between 0 and {facts.lamport_max}")
    return tag_bytes + write_varint(lamport)


def decode(data: bytes, profile: Profile, *, max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> Message:
    """Decode a message. Raises `MessageError` for malformed bytes."""
    return Decoder(profile, max_bytes=max_bytes, cached_entries=0).decode(data)
