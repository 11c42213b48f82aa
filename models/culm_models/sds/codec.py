"""Messages as bytes and back, in each of the three wire profiles (specification "Message"; see `profiles`).

Writing gives, byte for byte, what the implementations of the profile give. Reading takes fields in any order,
skips unknown ones, lets the last of a repeated one win, and refuses what it cannot trust. Nothing but
`MessageError` is raised by either, whatever the bytes or the message.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from culm_models.sds.entry_codec import entry_body, id_bytes, read_entry, read_id
from culm_models.sds.errors import (
    EntryCountError,
    FieldMissingError,
    LamportRangeError,
    MessageKindError,
    MessageTooLargeError,
    TruncatedMessageError,
    WireTypeError,
)
from culm_models.sds.messages import HistoryEntry, Message, Profile
from culm_models.sds.profiles import PROFILES, WireProfile
from culm_models.sds.protobuf import (
    LENGTH,
    VARINT,
    read_length,
    read_tag,
    read_varint,
    skip,
    tag,
    varint,
    with_length,
)

DEFAULT_MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 10_000
_CACHED_ENTRIES: Final = 8_192
# A longer entry is read anew each time, so that the cache is bounded in bytes too.
_CACHED_ENTRY_BYTES: Final = 512

_TEXT_FIELDS: Final = ("sender_id", "message_id", "channel_id")
_ENTRY_FIELDS: Final = ("causal_history", "repair_request")
_FIELDS: Final = (*_TEXT_FIELDS, "lamport_timestamp", *_ENTRY_FIELDS, "bloom_filter", "content")


def _tag_of(profile: WireProfile, name: str) -> int:
    number: int = getattr(profile.fields, name)
    return tag(number, VARINT if name == "lamport_timestamp" else LENGTH)


_TAGS: Final[Mapping[Profile, Mapping[str, int]]] = {
    name: {field: _tag_of(profile, field) for field in _FIELDS} for name, profile in PROFILES.items()
}
_TAG_BYTES: Final[Mapping[Profile, Mapping[str, bytes]]] = {
    name: {field: varint(found) for field, found in tags.items()} for name, tags in _TAGS.items()
}
_NAMES: Final[Mapping[Profile, Mapping[int, str]]] = {
    name: {found: field for field, found in tags.items()} for name, tags in _TAGS.items()
}
_NUMBERS: Final[Mapping[Profile, frozenset[int]]] = {
    name: frozenset(found >> 3 for found in tags.values()) for name, tags in _TAGS.items()
}


def encode(message: Message, profile: Profile) -> bytes:
    """The bytes of a message. Raises MessageError for one that this profile cannot say."""
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
    """One entry of the causal history with its tag and length, as `assemble` takes it."""
    return with_length(_TAG_BYTES[profile]["causal_history"], entry_body(entry, profile))


def bloom_field(value: bytes | None, profile: Profile) -> bytes:
    """The field of the bloom filter, which stands between the two parts that `assemble` gives."""
    if value is None:
        if not PROFILES[profile].empty_is_absent:
            return b""
        value = b""
    return with_length(_TAG_BYTES[profile]["bloom_filter"], value)


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
    """A message's bytes before and behind its bloom filter; `history` holds what `encode_entry` gives."""
    facts = PROFILES[profile]
    tags = _TAG_BYTES[profile]
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
    # nim writes what it requires; all else that is empty is left out, as protobuf does.
    if not value and name not in facts.required:
        return b""
    return with_length(tags[name], id_bytes(value))


def _lamport_field(facts: WireProfile, tag_bytes: bytes, lamport: int | None) -> bytes:
    if lamport is None:
        if "lamport_timestamp" in facts.required:
            raise FieldMissingError(f"profile {facts.name} has no message without a Lamport timestamp")
        return b""
    if not 0 <= lamport <= facts.lamport_most:
        raise LamportRangeError(f"the Lamport timestamp {lamport} is not between 0 and {facts.lamport_most}")
    return tag_bytes + varint(lamport)


def decode(data: bytes, profile: Profile, *, max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> Message:
    """The message that bytes say. Raises MessageError for bytes that are none."""
    return Decoder(profile, max_bytes=max_bytes, cached_entries=0).decode(data)


class Decoder:
    """Reads the messages of one profile and keeps history entries that it has read lately.

    One message's causal history is nearly that of the message before it, so most entries are found by their
    bytes. At most `cached_entries` are kept.
    """

    __slots__ = (
        "_cache",
        "_cached_entries",
        "_facts",
        "_history_tag",
        "_max_bytes",
        "_max_entries",
        "_names",
        "_profile",
    )

    def __init__(
        self,
        profile: Profile,
        *,
        max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        max_entries: int = MAX_ENTRIES,
        cached_entries: int = _CACHED_ENTRIES,
    ) -> None:
        self._profile: Profile = profile
        self._facts = PROFILES[profile]
        self._names = _NAMES[profile]
        # One byte in every profile; spelled with more it is read as any other field.
        self._history_tag = _TAGS[profile]["causal_history"]
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._cached_entries = cached_entries
        self._cache: dict[bytes, HistoryEntry] = {}

    def decode(self, data: bytes) -> Message:
        """The message that bytes say. Raises MessageError for bytes that are none."""
        if len(data) > self._max_bytes:
            raise MessageTooLargeError(f"{len(data)} bytes, at most {self._max_bytes} are taken")
        names = self._names
        found: dict[str, Any] = {}
        entries: dict[str, list[HistoryEntry]] = {"causal_history": [], "repair_request": []}
        history = entries["causal_history"]
        position = 0
        while position < len(data):
            if data[position] == self._history_tag:
                position = self._read_run(data, position, history)
                continue
            field_tag, position = read_tag(data, position)
            name = names.get(field_tag)
            if name is None:
                if field_tag >> 3 in _NUMBERS[self._profile]:
                    raise WireTypeError(f"field {field_tag >> 3} has the wire type {field_tag & 7}")
                position = skip(data, position, field_tag)
            elif name == "lamport_timestamp":
                found[name], position = read_varint(data, position)
            else:
                start, position = read_length(data, position)
                value = data[start:position]
                if name in entries:
                    self._take(value, entries[name])
                else:
                    found[name] = read_id(value) if name in _TEXT_FIELDS else value
        return self._checked(found, entries)

    def _read_run(self, data: bytes, position: int, into: list[HistoryEntry]) -> int:
        """Read the run of history entries that begins at `position`; gives the position behind it.

        The inner loop of all reading: lengths of one and two bytes are read in place.
        """
        size = len(data)
        history_tag = self._history_tag
        known = self._cache.get
        append = into.append
        try:
            for _ in range(self._max_entries - len(into)):
                length = data[position + 1]
                if length < 0x80:
                    start = position + 2
                    end = start + length
                elif (high := data[position + 2]) < 0x80:
                    start = position + 3
                    end = start + (high << 7 | length & 0x7F)
                else:
                    start, end = read_length(data, position + 1)
                if end > size:
                    raise TruncatedMessageError("a history entry is longer than what follows")
                body = data[start:end]
                append(known(body) or self._read_entry(body))
                position = end
                if position == size or data[position] != history_tag:
                    return position
        except IndexError:
            raise TruncatedMessageError("the message ends inside the length of a history entry") from None
        raise EntryCountError(f"more than {self._max_entries} history entries")

    def _take(self, body: bytes, into: list[HistoryEntry]) -> None:
        if len(into) >= self._max_entries:
            raise EntryCountError(f"more than {self._max_entries} history entries")
        into.append(self._cache.get(body) or self._read_entry(body))

    def _read_entry(self, body: bytes) -> HistoryEntry:
        entry = read_entry(body, self._profile)
        if self._cached_entries and len(body) <= _CACHED_ENTRY_BYTES:
            if len(self._cache) >= self._cached_entries:
                self._cache.clear()
            self._cache[body] = entry
        return entry

    def _checked(self, found: dict[str, Any], entries: dict[str, list[HistoryEntry]]) -> Message:
        facts = self._facts
        for name in facts.required:
            if name not in found or (name in facts.required_filled and not found[name]):
                raise FieldMissingError(f"the {name} is missing")
        lamport = found.get("lamport_timestamp")
        content = found.get("content")
        bloom_filter = found.get("bloom_filter")
        if lamport is None and not content:
            raise MessageKindError("neither a Lamport timestamp nor content")
        if lamport is not None and lamport > facts.lamport_most:
            raise LamportRangeError(f"the Lamport timestamp is larger than {facts.lamport_most}")
        if facts.empty_is_absent:
            content = content or None
            bloom_filter = bloom_filter or None
        return Message(
            found.get("sender_id", ""),
            found.get("message_id", ""),
            found.get("channel_id", ""),
            lamport,
            tuple(entries["causal_history"]),
            bloom_filter,
            content,
            tuple(entries["repair_request"]),
        )
