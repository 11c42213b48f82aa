"""Integers without their zero bytes: unsigned, signed, doubles, and pairs of integers (reference 1.2).

Everything is little-endian. A pair is two integers in one string without a separator: the two widths follow
from the total length alone, which limits the possible widths (`pack_pair`).
"""

from __future__ import annotations

import math
import struct
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import PairLength, ValueMalformed

U64_MAX: Final = (1 << 64) - 1
WIDTH_MAX: Final = 8

PAIR_WIDTHS: Final = {
    0: (0, 0),
    1: (1, 0),
    2: (1, 1),
    3: (2, 1),
    4: (2, 2),
    5: (4, 1),
    6: (4, 2),
    8: (4, 4),
    9: (8, 1),
    10: (8, 2),
    12: (8, 4),
    16: (8, 8),
}
"""The widths of the first and the second integer of a pair, by its total length."""

# By the number of bytes that an integer needs.
_LEAST_WIDTH: Final = (0, 1, 2, 4, 4, 8, 8, 8, 8)
_REVERSED_BITS: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_NAN_BITS: Final = 0x7FF8000000000001


def pack_uint(n: int) -> bytes:
    """Encode ``n``, 0 to 2^64 - 1, without leading zero bytes: 0 is the empty string."""
    return n.to_bytes((n.bit_length() + 7) >> 3, "little")


def unpack_uint(data: bytes) -> int:
    """Decode an integer. Raises `ValueMalformed` for more than 8 bytes."""
    if len(data) > WIDTH_MAX:
        raise ValueMalformed(f"an integer of {len(data)} bytes")
    return int.from_bytes(data, "little")


def zigzag(n: int) -> int:
    """Map a signed integer of 64 bits to an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return n << 1 if n >= 0 else (-n << 1) - 1


def unzigzag(n: int) -> int:
    """Invert `zigzag`."""
    return (n >> 1) ^ -(n & 1)


def pack_int(n: int) -> bytes:
    """Encode a signed integer of 64 bits, zigzagged."""
    return pack_uint(zigzag(n))


def unpack_int(data: bytes) -> int:
    """Decode a signed integer. Raises `ValueMalformed` for more than 8 bytes."""
    return unzigzag(unpack_uint(data))


def pack_float_bits(bits: int) -> bytes:
    """Encode the 64 bits of a double in reversed order, without leading zero bytes."""
    # Reversing the bits reverses the bytes and the bits within each byte, so a big-endian string becomes
    # little-endian.
    return bits.to_bytes(8, "big").translate(_REVERSED_BITS).rstrip(b"\0")


def unpack_float_bits(data: bytes) -> int:
    """Decode the 64 bits of a double. Raises `ValueMalformed` for more than 8 bytes."""
    if len(data) > WIDTH_MAX:
        raise ValueMalformed(f"a float of {len(data)} bytes")
    return int.from_bytes(data.ljust(8, b"\0").translate(_REVERSED_BITS), "big")


def pack_float(value: float) -> bytes:
    """Encode a double; all NaN values have one encoding."""
    if math.isnan(value):
        return pack_float_bits(_NAN_BITS)
    return struct.pack(">d", value).translate(_REVERSED_BITS).rstrip(b"\0")


def unpack_float(data: bytes) -> float:
    """Decode a double. Raises `ValueMalformed` for more than 8 bytes."""
    value: float = struct.unpack(">d", unpack_float_bits(data).to_bytes(8, "big"))[0]
    return value


def pack_pair(big: int, lil: int) -> bytes:
    """Encode two integers, 0 to 2^64 - 1, in the least widths that a length can distinguish."""
    x = _LEAST_WIDTH[(big.bit_length() + 7) >> 3]
    y = _LEAST_WIDTH[(lil.bit_length() + 7) >> 3]
    if y <= 1:
        if y == 1 and x == 0:
            x = 1
        elif y == 0 and x > 1:
            y = 1
    elif x < y:
        x = y
    return big.to_bytes(x, "little") + lil.to_bytes(y, "little")


def unpack_pair(data: bytes, *, compat: Compat = Compat.DEFAULT) -> tuple[int, int]:
    """Decode two integers. An impossible length raises `PairLength`, or gives (0, 0) with `Compat.GO`."""
    widths = PAIR_WIDTHS.get(len(data))
    if widths is None:
        if compat is Compat.GO:
            return 0, 0
        raise PairLength(f"a pair of {len(data)} bytes")
    big = widths[0]
    return int.from_bytes(data[:big], "little"), int.from_bytes(data[big:], "little")
