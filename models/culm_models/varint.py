"""Unsigned varints of protobuf and multiformats: 7 bits per byte, lowest group first.

Further requirements (the shortest form, a largest value) and errors are defined by each protocol.
"""

from __future__ import annotations

from typing import Final

_SHORT: Final = tuple(bytes((number,)) for number in range(0x80))


class VarintCutOff(ValueError):
    """The bytes end within a varint."""


class VarintTooLong(ValueError):
    """A varint has more bytes than allowed."""


def write_varint(number: int) -> bytes:
    """Encode a non-negative number in its shortest form."""
    if number < 0x80:
        return _SHORT[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes | bytearray | memoryview, at: int, max_bytes: int) -> tuple[int, int]:
    """Read the number at `at`, in any form. Returns it with the offset of its end.

    Raises `VarintCutOff` and `VarintTooLong`.
    """
    number = shift = 0
    for byte in data[at : at + max_bytes]:
        if byte < 0x80:
            return number | byte << shift, at + shift // 7 + 1
        number |= (byte & 0x7F) << shift
        shift += 7
    if shift < 7 * max_bytes:
        raise VarintCutOff(f"the bytes end in the varint at byte {at}")
    raise VarintTooLong(f"the varint at byte {at} has more than {max_bytes} bytes")


def is_shortest(number: int, size: int) -> bool:
    """Whether a varint of `size` bytes is the shortest form of its number."""
    return size == 1 or number >> 7 * (size - 1) > 0
