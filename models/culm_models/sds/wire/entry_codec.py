"""Ids and history entries as bytes and back (specification "HistoryEntry", with the sender id of SDS-R)."""

from typing import Final

from culm_models.frozen import unfrozen
from culm_models.sds.wire.errors import FieldMissingError, IdSizeError, MessageError, TextError, WireTypeError
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_models.sds.wire.profiles import ENTRY_MESSAGE_ID, ENTRY_RETRIEVAL_HINT, ENTRY_SENDER_ID, PROFILES
from culm_models.sds.wire.protobuf import LENGTH, read_length, read_tag, skip, tag, varint, with_length

# Ids are kept for as long as the log is: a peer has no say in how much that is.
MAX_ID_BYTES: Final = 1_024

_ID_TAG: Final = tag(ENTRY_MESSAGE_ID, LENGTH)
_HINT_TAG: Final = tag(ENTRY_RETRIEVAL_HINT, LENGTH)
_SENDER_TAG: Final = tag(ENTRY_SENDER_ID, LENGTH)
_ID_TAG_BYTES: Final = varint(_ID_TAG)
_HINT_TAG_BYTES: Final = varint(_HINT_TAG)
_SENDER_TAG_BYTES: Final = varint(_SENDER_TAG)
_UnfrozenEntry: Final = unfrozen(HistoryEntry)


def id_bytes(value: str) -> bytes:
    """An id as UTF-8. Raises TextError for half a surrogate pair and IdSizeError for a long one."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise TextError("an id holds half a surrogate pair, which UTF-8 cannot spell") from None
    return _fitting(data)


def read_id(data: bytes) -> str:
    """An id from UTF-8. Raises TextError or IdSizeError."""
    try:
        return str(_fitting(data), "utf-8")
    except UnicodeDecodeError:
        raise TextError("an id is not UTF-8") from None


def entry_body(entry: HistoryEntry, profile: Profile) -> bytes:
    """A history entry without tag and length."""
    message_id, hint, sender_id = entry.message_id, entry.retrieval_hint, entry.sender_id
    if hint is None and message_id and sender_id:
        # Nearly all entries are so: an id, and who wrote it, each of less than 128 bytes.
        id_size, sender_size = len(message_id), len(sender_id)
        if id_size < 0x80 > sender_size and message_id.isascii() and sender_id.isascii():
            return b"%c%c%b%c%c%b" % (
                _ID_TAG,
                id_size,
                message_id.encode(),
                _SENDER_TAG,
                sender_size,
                sender_id.encode(),
            )
    facts = PROFILES[profile]
    if facts.empty_is_absent:
        hint = hint or None
        sender_id = sender_id or None
    body = b""
    if message_id or "message_id" in facts.required:
        if not message_id and "message_id" in facts.required_filled:
            raise FieldMissingError("a history entry has no message id")
        body = with_length(_ID_TAG_BYTES, id_bytes(message_id))
    if hint is not None:
        body += with_length(_HINT_TAG_BYTES, _fitting(hint))
    if sender_id is not None:
        body += with_length(_SENDER_TAG_BYTES, id_bytes(sender_id))
    return body


def read_entry(body: bytes, profile: Profile) -> HistoryEntry:
    """A history entry from the bytes of the nested message. Raises MessageError."""
    short = _short_entry(body)
    if short is not None:
        return short
    if profile != "nim":
        return _read_entry(body, profile)
    try:
        return _read_entry(body, profile)
    except MessageError:
        # Older nim-sds wrote a history of bare ids. They differ from entries by being text: the tags of an
        # entry's own fields are control characters.
        if body and (text := _text(body)) is not None and text.isprintable():
            return HistoryEntry(text)
        raise


def _short_entry(body: bytes) -> HistoryEntry | None:
    """The entry where it is an id, with or without who wrote it, in ASCII and less than 128 bytes each."""
    size = len(body)
    if size < 3 or body[0] != _ID_TAG or not body.isascii():
        return None
    id_end = 2 + body[1]
    text = str(body, "ascii")
    if id_end == size:
        return _entry(text[2:], None, None)
    if 2 < id_end < size - 2 and body[id_end] == _SENDER_TAG and body[id_end + 1] == size - id_end - 2:
        return _entry(text[2:id_end], None, text[id_end + 2 :])
    return None


def _entry(message_id: str, hint: bytes | None, sender_id: str | None) -> HistoryEntry:
    entry = _UnfrozenEntry(message_id, hint, sender_id)
    entry.__class__ = HistoryEntry
    return entry  # type: ignore[no-any-return]


def _read_entry(body: bytes, profile: Profile) -> HistoryEntry:
    facts = PROFILES[profile]
    strict = facts.strict
    message_id: str | None = None
    hint: bytes | None = None
    sender_id: str | None = None
    position = 0
    while position < len(body):
        field_tag, position = read_tag(body, position, strict)
        if field_tag == _ID_TAG:
            start, position = read_length(body, position, strict)
            message_id = read_id(body[start:position])
        elif field_tag == _HINT_TAG:
            start, position = read_length(body, position, strict)
            hint = _fitting(body[start:position])
        elif field_tag == _SENDER_TAG:
            start, position = read_length(body, position, strict)
            sender_id = read_id(body[start:position])
        elif field_tag >> 3 in (ENTRY_MESSAGE_ID, ENTRY_RETRIEVAL_HINT, ENTRY_SENDER_ID):
            raise WireTypeError(
                f"field {field_tag >> 3} of a history entry has the wire type {field_tag & 7}"
            )
        else:
            position = skip(body, position, field_tag, strict)
    if message_id is None and "message_id" in facts.required:
        raise FieldMissingError("a history entry has no message id")
    if not message_id and "message_id" in facts.required_filled:
        raise FieldMissingError("a history entry has no message id")
    if facts.empty_is_absent:
        hint = hint or None
        sender_id = sender_id or None
    return HistoryEntry(message_id or "", hint, sender_id)


def _text(body: bytes) -> str | None:
    try:
        return read_id(body)
    except MessageError:
        return None


def _fitting(data: bytes) -> bytes:
    if len(data) > MAX_ID_BYTES:
        raise IdSizeError(f"an id or a hint of {len(data)} bytes, at most {MAX_ID_BYTES} are taken")
    return data
