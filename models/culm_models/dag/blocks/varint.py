"""Unsigned varints of multiformats (1.1): 7 bits per byte, lowest group first, shortest form."""

from __future__ import annotations

from typing import Final

from culm_models import varint
from culm_models.dag.errors import VarintMalformed
from culm_models.varint import VarintCutOff, VarintTooLong, is_shortest

VARINT_BYTES_MAX: Final = 9
VARINT_MAX: Final = (1 << 63) - 1


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read the number at `at`. Returns it with the offset of its end. Raises `VarintMalformed`."""
    try:
        number, end = varint.read_varint(data, at, VARINT_BYTES_MAX)
    except (VarintCutOff, VarintTooLong) as error:
        raise VarintMalformed(str(error)) from None
    if not is_shortest(number, end - at):
        raise VarintMalformed(f"the varint at byte {at} is not the shortest form")
    return number, end


def write_varint(number: int) -> bytes:
    """Encode a number. Raises `VarintMalformed` if it is not in 0 to 2^63-1."""
    if not 0 <= number <= VARINT_MAX:
        raise VarintMalformed(f"{number} does not fit a varint")
    return varint.write_varint(number)
