"""The heads of CBOR items (RFC 8949, section 3), for messages that are written piece by piece."""

from typing import Final

NUMBER: Final = 0x00
OCTETS: Final = 0x40
TEXT: Final = 0x60
ARRAY: Final = 0x80


def head(major: int, value: int) -> bytes:
    """The shortest head of that major type with that number, length or count."""
    if value < 24:
        return bytes((major | value,))
    if value < 0x100:
        return bytes((major | 24, value))
    if value < 0x10000:
        return bytes((major | 25, value >> 8, value & 0xFF))
    if value < 0x100000000:
        return bytes((major | 26,)) + value.to_bytes(4, "big")
    return bytes((major | 27,)) + value.to_bytes(8, "big")
