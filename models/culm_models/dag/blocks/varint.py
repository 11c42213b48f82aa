"""Unsigned varints as multiformats has them (1.1): 7 bits a byte, low group first, shortest form."""

from __future__ import annotations

from typing import Final

from culm_models.dag.errors import VarintMalformed

VARINT_BYTES_MAX: Final = 9
VARINT_MAX: Final = (1 << 63) - 1


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at `at` and where it ends."""
    number = shift = 0
    for end in range(at, min(len(data), at + VARINT_BYTES_MAX)):
        byte = data[end]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise VarintMalformed(f"the varint at byte {at} is not the shortest form")
            return number, end + 1
        shift += 7
    if len(data) - at >= VARINT_BYTES_MAX:
        raise VarintMalformed(f"the varint at byte {at} has more than {VARINT_BYTES_MAX} bytes")
    raise VarintMalformed(f"the bytes end in the varint at byte {at}")


def write_varint(number: int) -> bytes:
    """The bytes of a number."""
    if not 0 <= number <= VARINT_MAX:
        raise VarintMalformed(f"{number} does not fit a varint")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
