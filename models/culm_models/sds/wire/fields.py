"""Parts of a message as bytes and back: protobuf fields, ids, history entries (SDS, "HistoryEntry").

Numbers may have more bytes than they need, as protobuf allows, but not more than 64 bits (32 for tags).
`strict`, as nim-libp2p reads, also refuses longer forms, and groups. Reading never goes past the end of
`data`, and no memory is allocated for an announced length.

Most entries of a message repeat those of the previous message: each message names the end of its sender's
log, so it mostly has the entries of the previous one, a few entries further on. `HistoryEntryReader` compares
that part as bytes and does not parse it; other entries it looks up by their bytes.
"""

from typing import Final

from culm_models import varint as varints
from culm_models.frozen import unfrozen
from culm_models.sds.errors import (
    EntryCountError,
    FieldMissingError,
    IdSizeError,
    MalformedSdsMessageError,
    SdsMessageError,
    TextError,
    TruncatedSdsMessageError,
    WireTypeError,
)
from culm_models.sds.wire.messages import (
    ENTRY_MESSAGE_ID,
    ENTRY_RETRIEVAL_HINT,
    ENTRY_SENDER_ID,
    LENGTH,
    PROFILES,
    TAGS,
    VARINT,
    HistoryEntry,
    Profile,
    tag,
)
from culm_models.varint import VarintCutOff, VarintTooLong, is_shortest, write_varint

FIXED64: Final = 1
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_U64_MAX: Final = (1 << 64) - 1
_TAG_MAX: Final = (1 << 32) - 1
_TAG_BYTES_MAX: Final = 5
_VARINT_BYTES_MAX: Final = 10
_GROUP_DEPTH_MAX: Final = 32


def with_length(tag_bytes: bytes, value: bytes) -> bytes:
    """Encode a field of text, bytes or a nested message."""
    return b"%b%b%b" % (tag_bytes, write_varint(len(value)), value)


def read_varint(data: bytes, position: int, strict: bool = False) -> tuple[int, int]:
    """Return the number at a position, and the position behind it."""
    if position < len(data) and (octet := data[position]) < 0x80:
        return octet, position + 1
    return _read(data, position, _VARINT_BYTES_MAX, _U64_MAX, strict)


def read_tag(data: bytes, position: int, strict: bool = False) -> tuple[int, int]:
    """Return the tag at a position, and the position behind it; its field number is not 0."""
    if position < len(data) and 8 <= (octet := data[position]) < 0x80:
        return octet, position + 1
    tag, position = _read(data, position, _TAG_BYTES_MAX, _TAG_MAX, strict)
    if tag < 8:
        raise MalformedSdsMessageError("a field has the number 0")
    return tag, position


def read_length(data: bytes, position: int, strict: bool = False) -> tuple[int, int]:
    """Return the start and end of the value whose length is at a position."""
    size, start = read_varint(data, position, strict)
    end = start + size
    if end > len(data):
        raise TruncatedSdsMessageError("a field is longer than what follows")
    return start, end


def skip(data: bytes, position: int, found_tag: int, strict: bool = False) -> int:
    """Return the position behind the value of an unknown field."""
    open_groups: list[int] = []
    while True:
        number, wire_type = found_tag >> 3, found_tag & 7
        if wire_type == VARINT:
            _, position = read_varint(data, position, strict)
        elif wire_type == LENGTH:
            _, position = read_length(data, position, strict)
        elif wire_type in (FIXED64, FIXED32):
            position += 8 if wire_type == FIXED64 else 4
            if position > len(data):
                raise TruncatedSdsMessageError("a field is longer than what follows")
        elif strict:
            raise MalformedSdsMessageError(f"the wire type {wire_type} is not known")
        elif wire_type == START_GROUP:
            open_groups.append(number)
            if len(open_groups) > _GROUP_DEPTH_MAX:
                raise MalformedSdsMessageError(f"groups are nested deeper than {_GROUP_DEPTH_MAX}")
        elif wire_type != END_GROUP:
            raise MalformedSdsMessageError(f"the wire type {wire_type} does not exist")
        elif not open_groups or open_groups.pop() != number:
            raise MalformedSdsMessageError("a group ends that was not begun")
        if not open_groups:
            return position
        found_tag, position = read_tag(data, position)


def _read(data: bytes, position: int, max_bytes: int, max_value: int, strict: bool) -> tuple[int, int]:
    try:
        value, end = varints.read_varint(data, position, max_bytes)
    except VarintCutOff:
        raise TruncatedSdsMessageError("the message ends inside a number") from None
    except VarintTooLong:
        raise MalformedSdsMessageError(f"a number is spelled with more than {max_bytes} bytes") from None
    if value > max_value:
        raise MalformedSdsMessageError(f"a number is larger than {max_value}")
    if strict and not is_shortest(value, end - position):
        raise MalformedSdsMessageError("a number is spelled with more bytes than it needs")
    return value, end


# Ids are kept as long as the log: a peer cannot decide how much memory that takes.
MAX_ID_BYTES: Final = 1_024

_ID_TAG: Final = tag(ENTRY_MESSAGE_ID, LENGTH)
_HINT_TAG: Final = tag(ENTRY_RETRIEVAL_HINT, LENGTH)
_SENDER_TAG: Final = tag(ENTRY_SENDER_ID, LENGTH)
_ID_TAG_BYTES: Final = write_varint(_ID_TAG)
_HINT_TAG_BYTES: Final = write_varint(_HINT_TAG)
_SENDER_TAG_BYTES: Final = write_varint(_SENDER_TAG)
_UnfrozenEntry: Final = unfrozen(HistoryEntry)


def id_bytes(value: str) -> bytes:
    """Encode an id as UTF-8. Raises `TextError` for half a surrogate pair and `IdSizeError` for a long id."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise TextError("an id holds half a surrogate pair, which UTF-8 cannot spell") from None
    return _fitting(data)


def read_id(data: bytes) -> str:
    """Decode an id from UTF-8. Raises `TextError` or `IdSizeError`."""
    try:
        return str(_fitting(data), "utf-8")
    except UnicodeDecodeError:
        raise TextError("an id is not UTF-8") from None


def entry_body(entry: HistoryEntry, profile: Profile) -> bytes:
    """Encode a history entry without tag and length."""
    message_id, hint, sender_id = entry.message_id, entry.retrieval_hint, entry.sender_id
    if hint is None and message_id and sender_id:
        # Nearly all entries consist of an id and its sender, each of less than 128 bytes.
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
    """Decode a history entry from the bytes of the nested message. Raises `SdsMessageError`."""
    short = _short_entry(body)
    if short is not None:
        return short
    if profile != "nim":
        return _read_entry(body, profile)
    try:
        return _read_entry(body, profile)
    except SdsMessageError:
        # Older nim-sds wrote a history of bare ids. Unlike entries they are printable text: the tags of an
        # entry's own fields are control characters.
        if body and (text := _text(body)) is not None and text.isprintable():
            return HistoryEntry(text)
        raise


def _short_entry(body: bytes) -> HistoryEntry | None:
    """Decode an entry of an id, with or without sender, in ASCII of less than 128 bytes each, else None."""
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
    except SdsMessageError:
        return None


def _fitting(data: bytes) -> bytes:
    if len(data) > MAX_ID_BYTES:
        raise IdSizeError(f"an id or a hint of {len(data)} bytes, at most {MAX_ID_BYTES} are taken")
    return data


# Larger entries and runs are not remembered, so that the remembered bytes are limited, too.
_REMEMBERED_ENTRY_BYTES: Final = 512
_REMEMBERED_RUN_BYTES: Final = 1 << 17
# Limit of entries of the last run that may be absent at the beginning of the next one.
_STEPS_MAX: Final = 8
# Remembered entries: at least so many, or as many as in so many runs of the last one's length.
_ENTRIES_LEAST: Final = 64
_RUNS: Final = 4


class HistoryEntryReader:
    """Reads the entries of one profile; remembers the last run and at most `remembered` entries."""

    __slots__ = (
        "_entries",
        "_known",
        "_limit",
        "_max_entries",
        "_profile",
        "_remembered",
        "_run",
        "_strict",
        "_tag",
    )

    def __init__(self, profile: Profile, max_entries: int, remembered: int) -> None:
        self._profile: Profile = profile
        self._strict = PROFILES[profile].strict
        self._max_entries = max_entries
        self._remembered = remembered
        self._limit = min(remembered, _ENTRIES_LEAST)
        self._known: dict[bytes, HistoryEntry] = {}
        # One byte in every profile; a tag in a longer form does not begin a run.
        self._tag = TAGS[profile]["causal_history"]
        self._run = b""
        self._entries: list[HistoryEntry] = []

    def read_one(self, body: bytes, into: list[HistoryEntry]) -> None:
        """Read one entry without its tag and length. Raises `SdsMessageError`."""
        if len(into) >= self._max_entries:
            raise EntryCountError(f"more than {self._max_entries} history entries")
        into.append(self._known.get(body) or self._read(body))

    def read_run(self, data: bytes, position: int, into: list[HistoryEntry]) -> int:
        """Read consecutive entries of the causal history, starting at a position.

        Returns the position behind them. Raises `SdsMessageError`.
        """
        begin = position
        fresh = not into
        if fresh:
            position = self._repeated(data, position, into)
        if position < len(data) and data[position] == self._tag:
            position = self._read_entries(data, position, into)
        if fresh and self._remembered and position - begin <= _REMEMBERED_RUN_BYTES:
            self._run = data[begin:position]
            self._entries = into.copy()
            self._limit = min(self._remembered, max(_ENTRIES_LEAST, _RUNS * len(into)))
        return position

    def _repeated(self, data: bytes, position: int, into: list[HistoryEntry]) -> int:
        """Copy the entries that this run repeats of the last one, except for its first few entries."""
        run = self._run
        start = 0
        for steps in range(min(_STEPS_MAX, len(self._entries))):
            _, end = read_length(run, start + 1)
            if data.startswith(run[start:end], position):
                repeated = run[start:]
                if data.startswith(repeated, position):
                    into += self._entries[steps:]
                    return position + len(repeated)
                return position
            start = end
        return position

    def _read_entries(self, data: bytes, position: int, into: list[HistoryEntry]) -> int:
        # The inner loop of all reading: lengths of one and two bytes are read in place.
        size = len(data)
        history_tag = self._tag
        known = self._known.get
        append = into.append
        try:
            for _ in range(self._max_entries - len(into)):
                length = data[position + 1]
                if length < 0x80:
                    start = position + 2
                    end = start + length
                elif 0 < (high := data[position + 2]) < 0x80:
                    start = position + 3
                    end = start + (high << 7 | length & 0x7F)
                else:
                    start, end = read_length(data, position + 1, self._strict)
                if end > size:
                    raise TruncatedSdsMessageError("a history entry is longer than what follows")
                body = data[start:end]
                append(known(body) or self._read(body))
                position = end
                if position == size or data[position] != history_tag:
                    return position
        except IndexError:
            raise TruncatedSdsMessageError("the message ends inside the length of a history entry") from None
        raise EntryCountError(f"more than {self._max_entries} history entries")

    def _read(self, body: bytes) -> HistoryEntry:
        entry = read_entry(body, self._profile)
        if self._remembered and len(body) <= _REMEMBERED_ENTRY_BYTES:
            if len(self._known) >= self._limit:
                self._known.clear()
            self._known[body] = entry
        return entry
