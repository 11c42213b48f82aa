"""The part of the protobuf encoding that SDS needs: numbers, tags, fields with a length, and skipping.

Numbers may be spelled with more bytes than they need, as protobuf allows, but not with more than 64 bits (32
for tags); `strict`, as nim-libp2p reads, refuses that too, and groups. Reading never goes past the end of
`data`; nothing is copied on the word of a length.
"""

from typing import Final

from culm_models import varint as varints
from culm_models.sds.wire.errors import MalformedMessageError, TruncatedMessageError
from culm_models.varint import VarintCutOff, VarintTooLong, is_shortest, write_varint

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_U64_MOST: Final = (1 << 64) - 1
_TAG_MOST: Final = (1 << 32) - 1
_TAG_BYTES_MOST: Final = 5
_VARINT_BYTES_MOST: Final = 10
_GROUP_DEPTH_MOST: Final = 32


def tag(number: int, wire_type: int) -> int:
    """The tag of a field, as a number."""
    return number << 3 | wire_type


def with_length(tag_bytes: bytes, value: bytes) -> bytes:
    """A field of strings, bytes or a nested message."""
    return b"%b%b%b" % (tag_bytes, write_varint(len(value)), value)


def read_varint(data: bytes, position: int, strict: bool = False) -> tuple[int, int]:
    """The number at a position, and the position behind it."""
    if position < len(data) and (octet := data[position]) < 0x80:
        return octet, position + 1
    return _read(data, position, _VARINT_BYTES_MOST, _U64_MOST, strict)


def read_tag(data: bytes, position: int, strict: bool = False) -> tuple[int, int]:
    """The tag at a position, and the position behind it; its field number is not 0."""
    if position < len(data) and 8 <= (octet := data[position]) < 0x80:
        return octet, position + 1
    found, position = _read(data, position, _TAG_BYTES_MOST, _TAG_MOST, strict)
    if found < 8:
        raise MalformedMessageError("a field has the number 0")
    return found, position


def read_length(data: bytes, position: int, strict: bool = False) -> tuple[int, int]:
    """Where the value begins whose length stands at a position, and where it ends."""
    size, start = read_varint(data, position, strict)
    end = start + size
    if end > len(data):
        raise TruncatedMessageError("a field is longer than what follows")
    return start, end


def skip(data: bytes, position: int, found_tag: int, strict: bool = False) -> int:
    """The position behind the value of a field that nobody here knows."""
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
                raise TruncatedMessageError("a field is longer than what follows")
        elif strict:
            raise MalformedMessageError(f"the wire type {wire_type} is not known")
        elif wire_type == START_GROUP:
            open_groups.append(number)
            if len(open_groups) > _GROUP_DEPTH_MOST:
                raise MalformedMessageError(f"groups are nested deeper than {_GROUP_DEPTH_MOST}")
        elif wire_type != END_GROUP:
            raise MalformedMessageError(f"the wire type {wire_type} does not exist")
        elif not open_groups or open_groups.pop() != number:
            raise MalformedMessageError("a group ends that was not begun")
        if not open_groups:
            return position
        found_tag, position = read_tag(data, position)


def _read(data: bytes, position: int, bytes_most: int, most: int, strict: bool) -> tuple[int, int]:
    try:
        value, end = varints.read_varint(data, position, bytes_most)
    except VarintCutOff:
        raise TruncatedMessageError("the message ends inside a number") from None
    except VarintTooLong:
        raise MalformedMessageError(f"a number is spelled with more than {bytes_most} bytes") from None
    if value > most:
        raise MalformedMessageError(f"a number is larger than {most}")
    if strict and not is_shortest(value, end - position):
        raise MalformedMessageError("a number is spelled with more bytes than it needs")
    return value, end
