"""What a filter's bytes look like in the three layouts, and how an id becomes positions in them.

An id has two hashes; its positions are (first + n * second) mod bit count, for n below the hash count.

| layout | hash, read with a sign and made positive | 64-bit words |
|---|---|---|
| js | murmur3 of UTF-16 code units, as far as JavaScript's peer takes them | big-endian |
| spec | murmur3 of UTF-8 | big-endian |
| nim | FarmHash fingerprint64 of UTF-8 | little-endian, inside a container (`container`) |

The specification leaves the bytes open: those of spec are JavaScript's wherever ids are ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmh3 import mmh3_32_sintdigest

from culm_models.sds.bloom.farmhash import fingerprint64
from culm_models.sds.bloom.murmur import hash_units
from culm_models.sds.bloom.shape import BloomShape

LayoutName: TypeAlias = Literal["spec", "js", "nim"]
HashPair: TypeAlias = tuple[int, int]

SECOND_SUFFIX = " b"
"""What is put behind an id for its second hash."""

_SUFFIX = SECOND_SUFFIX.encode()
_MASKS = tuple(1 << bit for bit in range(8))
_SIGN_32 = 1 << 31
_SIGN_64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Layout:
    """`byte_flip`: exclusive-or of a bit's byte number with it gives the byte's place (7: big-endian words).

    `pair_code`: the array code of one hash of a pair. `contained`: the bits lie in nim's container.
    """

    name: LayoutName
    hash_pair: Callable[[str], HashPair]
    byte_flip: int
    pair_code: Literal["I", "Q"]
    contained: bool = False


def hash_pair(layout: LayoutName, message_id: str) -> HashPair:
    """The two hashes of an id, not reduced to any filter's bits: u32 in js and spec, u64 in nim."""
    return LAYOUTS[layout].hash_pair(message_id)


def _murmur_pair(message_id: str) -> HashPair:
    data = message_id.encode()
    return abs(mmh3_32_sintdigest(data)), abs(mmh3_32_sintdigest(data + _SUFFIX))


def _unit_pair(message_id: str) -> HashPair:
    if message_id.isascii():
        return _murmur_pair(message_id)
    # JavaScript's peer walks over characters and takes the first code unit of each.
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
    """The magnitude of an unsigned hash read with a sign."""
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
