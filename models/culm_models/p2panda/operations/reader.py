"""Reader of operations in all encodings that p2panda nodes accept (p2panda, "operations").

Nodes decode CBOR leniently: open lengths, numbers in long forms, big numbers, tags in some places and not in
others, an array of numbers for an operation id. Two peers that disagree on one operation disagree on its log
forever, so this reader follows the p2panda node's behaviour in each place, as determined by experiments. It
is slow and rarely used: `operation` reads the usual encoding by itself and uses this reader for all others.
"""

import struct
from typing import Final

from culm_models.bamboo import hashes as yasmf
from culm_models.p2panda.errors import (
    ActionError,
    FieldOrderError,
    MalformedOperationError,
    OperationItemCountError,
    PreviousError,
    ValueKindError,
    VersionError,
)
from culm_models.p2panda.operations import identifiers

Value = bool | int | float | str | bytes | tuple[bytes, ...] | tuple[tuple[bytes, ...], ...]
Parts = tuple[int, str, tuple[bytes, ...] | None, dict[str, Value] | None]

VERSION: Final = 1
CREATE: Final = 0
UPDATE: Final = 1
DELETE: Final = 2
ITEM_COUNT: Final = {CREATE: 4, UPDATE: 5, DELETE: 4}
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_BIG_POSITIVE = 2
_BIG_NEGATIVE = 3
_BIG_VALUE_SIZE = 16
_FLOAT_FORMATS = {25: ">e", 26: ">f", 27: ">d"}
_FALSE = 20
_TRUE = 21


def read_operation(data: bytes) -> Parts:
    """Return the action number, schema id, previous operations and fields. Raises `OperationError`.

    Bytes after the operation are ignored, as p2panda nodes do.
    """
    reader = _Reader(data)
    count = reader.typed_container(_ARRAY)
    if count is not None and count < 2:
        raise OperationItemCountError(f"an operation of {count} items has no action")
    version = reader.typed_unsigned()
    if version != VERSION:
        raise VersionError(f"operations of version {version} are not known")
    action = reader.typed_unsigned()
    if action not in ITEM_COUNT:
        raise ActionError(f"the action {action} is not known")
    if count is not None and count != ITEM_COUNT[action]:
        raise OperationItemCountError(
            f"an operation with action {action} has {ITEM_COUNT[action]} items, not {count}"
        )
    schema = identifiers.canonical_text(reader.text())
    previous = None if action == CREATE else _read_previous(reader)
    fields = None if action == DELETE else _read_fields(reader)
    return action, schema, previous, fields


class _Reader:
    """Position in the bytes.

    `typed_` methods skip tags before the item that they read; the others refuse tags.
    """

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def head(self) -> tuple[int, int, int | None]:
        """Read a head: major type, additional information, argument (None for an open length or break)."""
        if self.offset >= len(self.data):
            raise MalformedOperationError("the operation ends too early")
        first = self.data[self.offset]
        major, info = first >> 5, first & 31
        self.offset += 1
        if info < 24:
            return major, info, info
        if info < 28:
            return major, info, int.from_bytes(self.take(1 << (info - 24)), "big")
        if info == 31 and major in (_BYTES, _TEXT, _ARRAY, _MAP, _SIMPLE):
            return major, info, None
        raise MalformedOperationError(f"the head {first:02x} at byte {self.offset - 1} is reserved")

    def take(self, size: int) -> bytes:
        taken = self.data[self.offset : self.offset + size]
        if len(taken) < size:
            raise MalformedOperationError("the operation ends too early")
        self.offset += size
        return taken

    def at_break(self) -> bool:
        """Whether an open container ends here; if so, its break is consumed."""
        if self.data[self.offset : self.offset + 1] != b"\xff":
            return False
        self.offset += 1
        return True

    def typed_head(self) -> tuple[int, int, int | None]:
        while (head := self.head())[0] == _TAG:
            pass
        return head

    def typed_container(self, kind: int) -> int | None:
        """Read the length of the array or map that must come next; None for an open one."""
        major, _, length = self.typed_head()
        if major != kind:
            raise MalformedOperationError(f"an array or map is missing at byte {self.offset - 1}")
        return length

    def typed_unsigned(self) -> int:
        while True:
            major, _, argument = self.head()
            if major == _UNSIGNED and argument is not None:
                return argument
            if major != _TAG or argument == _BIG_NEGATIVE:
                raise MalformedOperationError(f"an unsigned number is missing at byte {self.offset - 1}")
            if argument == _BIG_POSITIVE:
                major, _, length = self.head()
                if major != _BYTES:
                    raise MalformedOperationError("a big number without its bytes")
                value = int.from_bytes(self.string(_BYTES, length), "big")
                if value >= 2**64:
                    raise MalformedOperationError("an unsigned number of more than 64 bits")
                return value

    def text(self) -> str:
        major, _, length = self.head()
        if major != _TEXT:
            raise MalformedOperationError(f"a text is missing at byte {self.offset - 1}")
        return self.string(_TEXT, length).decode()

    def string(self, kind: int, length: int | None) -> bytes:
        """Read the bytes of a string whose head has been read; the pieces of an open string are joined."""
        if length is not None:
            return self._piece(kind, length)
        pieces: list[bytes] = []
        open_strings = 1
        while open_strings:
            if self.at_break():
                open_strings -= 1
                continue
            major, _, length = self.head()
            if major != kind:
                raise MalformedOperationError(f"a piece of another kind at byte {self.offset - 1}")
            if length is None:
                open_strings += 1
            else:
                pieces.append(self._piece(kind, length))
        return b"".join(pieces)

    def _piece(self, kind: int, length: int) -> bytes:
        piece = self.take(length)
        if kind == _TEXT:
            try:
                piece.decode()
            except UnicodeDecodeError as error:
                raise MalformedOperationError(f"text that is not UTF-8: {error.reason}") from error
        return piece

    def more(self, length: int | None, done: int) -> bool:
        """Whether a container of that length (None: open) has an item after `done` items."""
        return not self.at_break() if length is None else done < length


def _read_previous(reader: _Reader) -> tuple[bytes, ...]:
    major, _, length = reader.head()
    try:
        if major == _TEXT:
            return identifiers.parse_view_id(reader.string(_TEXT, length).decode())
        if major != _ARRAY:
            raise PreviousError("the previous operations are neither an array nor a text")
        previous: list[bytes] = []
        while reader.more(length, len(previous)):
            previous.append(_read_operation_id(reader))
            identifiers.check_operation_id(previous[-1])
        identifiers.check_view_id(tuple(previous))
    except identifiers.DocumentViewIdError as error:
        raise PreviousError(f"previous operations: {error}") from error
    return tuple(previous)


def _read_operation_id(reader: _Reader) -> bytes:
    """Read an operation id, in a place for nothing else: a byte string, or an array of its bytes."""
    major, _, length = reader.typed_head()
    if major == _BYTES:
        return reader.string(_BYTES, length)
    if major != _ARRAY:
        raise PreviousError("an operation id is neither a byte string nor an array")
    values: list[int] = []
    while reader.more(length, len(values)):
        values.append(reader.typed_unsigned())
        if values[-1] > 255 or len(values) > yasmf.HASH_SIZE:
            raise PreviousError("an operation id is no array of 34 bytes")
    return bytes(values)


def _read_fields(reader: _Reader) -> dict[str, Value]:
    length = reader.typed_container(_MAP)
    fields: dict[str, Value] = {}
    last: str | None = None
    while reader.more(length, len(fields)):
        major, _, name_length = reader.typed_head()
        if major != _TEXT:
            raise ValueKindError("a field name is no text")
        name = reader.string(_TEXT, name_length).decode()
        if last is not None and name <= last:
            raise FieldOrderError(f"the field name {name[:64]!r} is not sorted after the one before")
        last = name
        fields[name] = _read_value(reader)
    return fields


def _read_value(reader: _Reader) -> Value:
    major, info, argument = reader.head()
    if major == _TAG:
        return _checked_integer(_read_big_integer(reader, argument))
    if major == _SIMPLE:
        return _read_simple(info, argument)
    if major == _BYTES:
        return reader.string(_BYTES, argument)
    if major == _TEXT:
        return reader.string(_TEXT, argument).decode()
    if major == _ARRAY:
        return _read_relations(reader, argument)
    if major == _MAP or argument is None:
        raise ValueKindError("a map cannot be the value of a field")
    return _checked_integer(argument if major == _UNSIGNED else -1 - argument)


def _checked_integer(value: int) -> int:
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise ValueKindError("an integer of more than 64 bits")
    return value


def _read_big_integer(reader: _Reader, tag: int | None) -> int:
    major, _, length = reader.head()
    big = tag in (_BIG_POSITIVE, _BIG_NEGATIVE) and major == _BYTES
    if not big or length is None or length > _BIG_VALUE_SIZE:
        raise ValueKindError("a tag on the value of a field")
    value = int.from_bytes(reader.take(length), "big")
    return value if tag == _BIG_POSITIVE else -1 - value


def _read_simple(info: int, argument: int | None) -> bool | float:
    if info in _FLOAT_FORMATS and argument is not None:
        raw = argument.to_bytes(1 << (info - 24), "big")
        value: float = struct.unpack(_FLOAT_FORMATS[info], raw)[0]
        return value
    if argument in (_FALSE, _TRUE):
        return argument == _TRUE
    raise ValueKindError("null and other simple values cannot be the value of a field")


def _read_relations(reader: _Reader, length: int | None) -> Value:
    """Read an array of operation ids, or an array of such arrays."""
    single: list[bytes] = []
    pinned: list[tuple[bytes, ...]] = []
    while reader.more(length, len(single) + len(pinned)):
        major, _, inner_length = reader.head()
        if major == _BYTES and not pinned:
            single.append(_related(reader, inner_length))
        elif major == _ARRAY and not single:
            view: list[bytes] = []
            while reader.more(inner_length, len(view)):
                major, _, bytes_length = reader.head()
                if major != _BYTES:
                    raise ValueKindError("a relation is no operation id")
                view.append(_related(reader, bytes_length))
            pinned.append(tuple(view))
        else:
            raise ValueKindError("an array mixes relations or holds other values")
    return tuple(pinned) if pinned else tuple(single)


def _related(reader: _Reader, length: int | None) -> bytes:
    operation_id = reader.string(_BYTES, length)
    try:
        identifiers.check_operation_id(operation_id)
    except identifiers.DocumentViewIdError as error:
        raise ValueKindError(f"a relation: {error}") from error
    return operation_id
