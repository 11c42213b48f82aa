"""VarU64, the variable-length unsigned integer of Bamboo (<https://github.com/AljoschaMeyer/varu64>).

A first byte below 248 is the value itself; 248..255 announce 1..8 further bytes that hold the value, most
significant byte first. Only the shortest form is written, and only it is valid in hashed data: identifiers
are hashes of encoded bytes, so a number must not have two encodings.
"""

from culm_models.errors import ModelError

MAX_VALUE = 2**64 - 1
MAX_SIZE = 9
_INLINE_LIMIT = 248


class VarU64Error(ModelError, code="varu64"):
    """Bytes that are not a VarU64 in its shortest form."""


class VarU64TruncatedError(VarU64Error, code="varu64.truncated"):
    """The bytes end before the number does."""


class VarU64NotCanonicalError(VarU64Error, code="varu64.not_canonical"):
    """The number is encoded in more bytes than it needs."""


def encode(value: int) -> bytes:
    """Encode a number from 0 to 2**64 - 1 in 1 to 9 bytes."""
    assert 0 <= value <= MAX_VALUE, f"a VarU64 holds 0..2**64-1, not {value}"
    if value < _INLINE_LIMIT:
        return bytes((value,))
    size = (value.bit_length() + 7) // 8
    return bytes((_INLINE_LIMIT - 1 + size,)) + value.to_bytes(size, "big")


def encoded_size(value: int) -> int:
    """Return the number of bytes that `encode` produces for a number."""
    return 1 if value < _INLINE_LIMIT else 1 + (value.bit_length() + 7) // 8


def decode(
    data: bytes | bytearray | memoryview, offset: int = 0, *, canonical: bool = True
) -> tuple[int, int]:
    """Decode the number at `offset`. Returns it with its size in bytes.

    Without `canonical`, longer encodings are accepted, too. Raises `VarU64TruncatedError` and
    `VarU64NotCanonicalError`.
    """
    if offset >= len(data):
        raise VarU64TruncatedError(f"a VarU64 is missing at byte {offset}")
    first = data[offset]
    if first < _INLINE_LIMIT:
        return first, 1
    size = first - _INLINE_LIMIT + 1
    start = offset + 1
    value_bytes = data[start : start + size]
    if len(value_bytes) < size:
        raise VarU64TruncatedError(f"the VarU64 at byte {offset} needs {size + 1} bytes")
    value = int.from_bytes(value_bytes, "big")
    if canonical and (value < _INLINE_LIMIT or value < 1 << (8 * (size - 1))):
        raise VarU64NotCanonicalError(f"the VarU64 at byte {offset} is not in its shortest form")
    return value, size + 1
