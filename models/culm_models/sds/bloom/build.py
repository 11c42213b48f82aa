"""Filters made whole from the hash pairs of their ids, with numpy where it is installed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cache
from types import ModuleType

from culm_models.sds.bloom.layout import LAYOUTS, BloomShape, Layout, LayoutName, set_bits, wrapped

_FEW_IDS = 64
"""Below that, setting the bits one by one is as fast as calling numpy."""

_FEW_ASKED = 16
_FEW_BYTES = 1_024


def filter_of(layout: LayoutName, message_ids: Iterable[str], capacity: int, error_rate: float) -> bytes:
    """The message field's bytes of a filter with these ids. It never starts over, so it may be overfull."""
    kind, shape = LAYOUTS[layout], BloomShape.sized(capacity, error_rate)
    pairs = array(kind.pair_code)
    for message_id in message_ids:
        pairs.extend(kind.hash_pair(message_id))
    bits = bytearray(shape.byte_count)
    filled(bits, kind, shape, pairs)
    return written(bits, kind, shape)


def written(bits: bytearray, layout: Layout, shape: BloomShape) -> bytes:
    """The message field's bytes of a filter with these bits."""
    if not layout.contained:
        return bytes(bits)
    before, after = wrapped(shape)
    return b"".join((before, bits, after))


def filled(bits: bytearray, layout: Layout, shape: BloomShape, pairs: array[int]) -> None:
    """Insert ids by their pairs, first and second hashes by turns, into a filter of that shape."""
    many = _vectors() if len(pairs) > 2 * _FEW_IDS else None
    if many is None:
        set_bits(bits, layout, shape, zip(pairs[::2], pairs[1::2], strict=True))
    else:
        many.set_many(bits, layout, shape, pairs)


def set_bit_count(bits: bytes) -> int:
    """How many bits of a filter are set."""
    many = _vectors() if len(bits) > _FEW_BYTES else None
    return int.from_bytes(bits, "little").bit_count() if many is None else many.set_bit_count(bits)


def covers(bits: bytes, others: bytes | bytearray) -> bool:
    """Whether every bit of `others`, as many bytes, is set in `bits`."""
    many = _vectors() if len(bits) > _FEW_BYTES else None
    if many is not None:
        covered: bool = many.covers(bits, others)
        return covered
    number = int.from_bytes(bits, "little")
    return number | int.from_bytes(others, "little") == number


def absent_of(bits: bytes, flip: int, hash_count: int, bit_count: int, pairs: array[int]) -> list[int]:
    """Which of the ids with these first and second hashes by turns are not in a filter, by their places."""
    many = _vectors() if len(pairs) > 2 * _FEW_ASKED else None
    if many is not None:
        places: list[int] = many.absent_of(bits, flip, hash_count, bit_count, pairs)
        return places
    steps = range(hash_count)

    def held(first: int, second: int) -> bool:
        positions = ((first + step * second) % bit_count for step in steps)
        return all(bits[(position >> 3) ^ flip] >> (position & 7) & 1 for position in positions)

    return [at for at in range(len(pairs) // 2) if not held(pairs[2 * at], pairs[2 * at + 1])]


@cache
def _vectors() -> ModuleType | None:
    # models needs no numpy: who installs models and topics alone pays with some milliseconds a rebuild.
    try:
        from culm_models.sds.bloom import vectors as bloom_vectors
    except ImportError:
        return None
    return bloom_vectors
