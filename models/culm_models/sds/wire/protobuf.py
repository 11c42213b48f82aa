"""The part of the protobuf encoding that SDS needs: numbers, tags, fields with a length, and skipping.

Numbers may be spelled with more bytes than they need, as protobuf allows, but not with more than 64 bits (32
for tags); `strict`, as nim-libp2p reads, refuses that too, and groups. Reading never goes past the end of
`data`; nothing is copied on the word of a length.
"""

from typing import Final

from culm_models.sds.wire.errors import MalformedMessageError, TruncatedMessageError

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
_SHORT: Final = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    """A number from 0 to 2**64 - 1 in its shortest form."""
    if value < 0x80:
        return _SHORT[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> int:
    """The tag of a field, as a number."""
    return number << 3 | wire_type


def with_length(tag_bytes: bytes, value: bytes) -> bytes:
    """A field of strings, bytes or a nested message."""
    return b"%b%b%b" % (tag_bytes, varint(len(value)), value)


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
    value = shift = 0
    for octet in data[position : position + bytes_most]:
        position += 1
        if octet < 0x80:
            value |= octet << shift
            if value > most:
                raise MalformedMessageError(f"a number is larger than {most}")
            if strict and octet == 0 and shift:
                raise MalformedMessageError("a number is spelled with more bytes than it needs")
            return value, position
        value |= (octet & 0x7F) << shift
        shift += 7
    if shift < 7 * bytes_most:
        raise TruncatedMessageError("the message ends inside a number")
    raise MalformedMessageError(f"a number is spelled with more than {bytes_most} bytes")
