"""The container that nim-sds puts around a filter's words: a protobuf message of its own.

1: the words; 2: capacity; 3: error rate in millionths; 4: hash count; 5: bit count.
"""

from __future__ import annotations

from culm_models.sds.bloom.shape import BloomShape, words_size

_MILLION = 1_000_000
_MAX_HASHES = 64
_NUMBER = 0
_BYTES = 2
_FIELDS = {1: _BYTES, 2: _NUMBER, 3: _NUMBER, 4: _NUMBER, 5: _NUMBER}
_FIXED_SIZES = {1: 8, 5: 4}
_MAX_FIELDS = 32


def wrapped(shape: BloomShape) -> tuple[bytes, bytes]:
    """What stands before and after the words of a filter of that shape."""
    before = b"\x0a" + _varint(shape.byte_count)
    numbers = (shape.capacity, int(shape.error_rate * _MILLION), shape.hash_count, shape.bit_count)
    after = b"".join(bytes((field << 3,)) + _varint(number) for field, number in enumerate(numbers, 2))
    return before, after


def unwrapped(value: bytes) -> tuple[bytes, int, int] | None:
    """The words, hash count and bit count of a received container; None where they do not fit together.

    The sender chooses them, so they are bounded: by the bytes that are there, and by 64 hashes.
    """
    fields: dict[int, int | bytes] = {}
    at = 0
    for _ in range(_MAX_FIELDS):
        if at == len(value):
            break
        step = _field(value, at, fields)
        if step is None:
            return None
        at = step
    if at != len(value) or fields.keys() != _FIELDS.keys():
        return None
    words, hash_count, bit_count = fields[1], fields[4], fields[5]
    assert isinstance(words, bytes) and isinstance(hash_count, int) and isinstance(bit_count, int)
    if not (0 < hash_count <= _MAX_HASHES and bit_count > 0 and len(words) == words_size(bit_count)):
        return None
    return words, hash_count, bit_count


def _field(value: bytes, at: int, fields: dict[int, int | bytes]) -> int | None:
    """Read one field; where the next one begins, or None."""
    head, at = _read_varint(value, at)
    number, wire_type = head >> 3, head & 7
    if at < 0 or number == 0 or _FIELDS.get(number, wire_type) != wire_type:
        return None
    if wire_type in (_NUMBER, _BYTES):
        content, at = _read_varint(value, at)
        if at < 0:
            return None
        if wire_type == _NUMBER:
            if number in _FIELDS:
                fields[number] = content
            return at
        end = at + content
        if end <= len(value) and number in _FIELDS:
            fields[number] = value[at:end]
    elif wire_type in _FIXED_SIZES:
        end = at + _FIXED_SIZES[wire_type]
    else:
        return None
    return end if end <= len(value) else None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(value: bytes, at: int) -> tuple[int, int]:
    """The number and where it ends; a negative end where it is cut off or longer than 64 bits."""
    number = 0
    for index, byte in enumerate(value[at : at + 10]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (number, at + index + 1) if number < 1 << 64 else (0, -1)
    return 0, -1
