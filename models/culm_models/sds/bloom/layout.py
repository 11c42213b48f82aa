"""The bytes of a filter in the three layouts, and the positions of an id in them.

An id has two hashes; its positions are (first + n * second) mod bit count, for n below the hash count.

| layout | hash, read with a sign and made positive | 64-bit words |
|---|---|---|
| js | murmur3 of UTF-16 code units, as far as JavaScript's peer reads them | big-endian |
| spec | murmur3 of UTF-8 | big-endian |
| nim | FarmHash fingerprint64 of UTF-8 | little-endian, inside a container (`wrapped`) |

The specification does not define the bytes: those of spec equal JavaScript's if ids are ASCII. Both deployed
implementations size their filters alike. nim's container is a protobuf message of its own (1: the words; 2:
capacity; 3: error rate in millionths; 4: hash count; 5: bit count).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from mmh3 import mmh3_32_sintdigest

from culm_models.sds.bloom.farmhash import fingerprint64
from culm_models.sds.bloom.murmur import hash_units
from culm_models.sds.errors import BloomShapeError
from culm_models.varint import VarintCutOff, VarintTooLong, read_varint, write_varint

_WORD_BITS = 64
_MAX_BYTES = 16 * 2**20
"""JavaScript's peer computes positions in signed 32 bits; a filter of this size is far below that limit."""


@dataclass(frozen=True, slots=True)
class BloomShape:
    """The parameters of a filter for `capacity` ids with at most `error_rate` false positives.

    `hash_count` positions are set for each id among `bit_count` bits, which lie in `byte_count` bytes: whole
    64-bit words, with an additional word even if `bit_count` is a multiple of 64.
    """

    capacity: int
    error_rate: float
    hash_count: int
    bit_count: int
    byte_count: int

    @classmethod
    @lru_cache(maxsize=64)
    def sized(cls, capacity: int, error_rate: float) -> BloomShape:
        """Return the shape that every participant of a channel derives from the same two numbers.

        Raises `BloomShapeError` for numbers that give no filter, or a filter of more than 16 MiB.
        """
        if capacity < 1 or not 0.0 < error_rate < 1.0:
            raise BloomShapeError(f"no filter for {capacity} ids at an error rate of {error_rate}")
        bits_per_id = math.ceil(-math.log(error_rate) / math.log(2) ** 2)
        bit_count = capacity * bits_per_id
        byte_count = words_size(bit_count)
        if byte_count > _MAX_BYTES:
            raise BloomShapeError(
                f"a filter for {capacity} ids at {error_rate} would take {byte_count} bytes"
            )
        hash_count = math.floor(math.log(2) * bits_per_id + 0.5)
        return cls(capacity, error_rate, hash_count, bit_count, byte_count)


def words_size(bit_count: int) -> int:
    """Return the bytes of the 64-bit words for this many bits, including the additional word."""
    return _WORD_BITS // 8 * (1 + bit_count // _WORD_BITS)


LayoutName: TypeAlias = Literal["spec", "js", "nim"]
HashPair: TypeAlias = tuple[int, int]

SECOND_SUFFIX = " b"
"""The suffix of an id for its second hash."""

_SUFFIX = SECOND_SUFFIX.encode()
_MASKS = tuple(1 << bit for bit in range(8))
_SIGN_32 = 1 << 31
_SIGN_64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout of filters.

    `byte_flip`: the exclusive-or of a bit's byte number with it is the byte's position (7: big-endian words).
    `hash_pair`: the two hashes of an id, not reduced to any filter's bits: u32 in js and spec, u64 in nim.
    `pair_code`: the array code of one hash of a pair. `contained`: the bits lie in nim's container.
    """

    name: LayoutName
    hash_pair: Callable[[str], HashPair]
    byte_flip: int
    pair_code: Literal["I", "Q"]
    contained: bool = False


def _murmur_pair(message_id: str) -> HashPair:
    data = message_id.encode()
    return abs(mmh3_32_sintdigest(data)), abs(mmh3_32_sintdigest(data + _SUFFIX))


def _unit_pair(message_id: str) -> HashPair:
    if message_id.isascii():
        return _murmur_pair(message_id)
    # JavaScript's peer iterates over characters and takes the first code unit of each.
    units = [_first_unit(ord(character)) for character in message_id]
    second = hash_units([*units, *_SUFFIX])
    return _positive(hash_units(units), _SIGN_32), _positive(second, _SIGN_32)


def _first_unit(code_point: int) -> int:
    return code_point if code_point < 0x10000 else 0xD800 + ((code_point - 0x10000) >> 10)


def _farm_pair(message_id: str) -> HashPair:
    data = message_id.encode()
    second = fingerprint64(data + _SUFFIX)
    return _positive(fingerprint64(data), _SIGN_64), _positive(second, _SIGN_64)


def _positive(unsigned: int, sign: int) -> int:
    """Return the magnitude of an unsigned hash read with a sign."""
    return unsigned if unsigned < sign else 2 * sign - unsigned


LAYOUTS: dict[LayoutName, Layout] = {
    "spec": Layout("spec", _murmur_pair, 7, "I"),
    "js": Layout("js", _unit_pair, 7, "I"),
    "nim": Layout("nim", _farm_pair, 0, "Q", contained=True),
}


def set_bits(bits: bytearray, layout: Layout, shape: BloomShape, pairs: Iterable[HashPair]) -> None:
    """Insert ids by their pairs into a filter of that shape."""
    flip, bit_count, hash_count, masks = layout.byte_flip, shape.bit_count, range(shape.hash_count), _MASKS
    for first, second in pairs:
        position, step = first % bit_count, second % bit_count
        for _ in hash_count:
            bits[(position >> 3) ^ flip] |= masks[position & 7]
            position = (position + step) % bit_count


_MILLION = 1_000_000
_MAX_HASHES = 64
_NUMBER = 0
_BYTES = 2
_FIELDS = {1: _BYTES, 2: _NUMBER, 3: _NUMBER, 4: _NUMBER, 5: _NUMBER}
_FIXED_SIZES = {1: 8, 5: 4}
_MAX_FIELDS = 32


def wrapped(shape: BloomShape) -> tuple[bytes, bytes]:
    """Return the bytes before and after the words of a filter of that shape."""
    before = b"\x0a" + write_varint(shape.byte_count)
    numbers = (shape.capacity, int(shape.error_rate * _MILLION), shape.hash_count, shape.bit_count)
    after = b"".join(bytes((field << 3,)) + write_varint(number) for field, number in enumerate(numbers, 2))
    return before, after


def unwrapped(value: bytes) -> tuple[bytes, int, int] | None:
    """Return the words, hash count and bit count of a received container; None if they are inconsistent.

    The sender chooses the numbers, so they are limited: by the bytes present, and by 64 hashes.
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
    """Read one field. Returns the position behind it, or None."""
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


def _read_varint(value: bytes, at: int) -> tuple[int, int]:
    """Return the number and its end; a negative end if it is cut off or longer than 64 bits."""
    try:
        number, end = read_varint(value, at, 10)
    except (VarintCutOff, VarintTooLong):
        return 0, -1
    return (number, end) if number < 1 << 64 else (0, -1)
