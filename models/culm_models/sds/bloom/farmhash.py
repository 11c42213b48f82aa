"""FarmHash fingerprint64, the hash of profile nim: one formula for an int and for a numpy array of uint64.

The length is a single number, so many strings can be hashed at once if they are equally long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Word: TypeAlias = Any
"""An int below 2^64, or an array of uint64: arithmetic wraps there anyway, and the masks change nothing."""

Fetch: TypeAlias = Callable[[int, int], Word]
"""Reads little-endian words of the input: (offset, size in bytes: 1, 4 or 8)."""

_MASK = 0xFFFFFFFFFFFFFFFF
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_SEED = 81


def fingerprint64(data: bytes) -> int:
    """Return the unsigned 64-bit fingerprint."""

    def fetch(offset: int, size: int) -> int:
        return int.from_bytes(data[offset : offset + size], "little")

    fingerprint: int = fingerprint_of(fetch, len(data))
    return fingerprint


def fingerprint_of(fetch: Fetch, length: int) -> Word:
    """Return the fingerprint of `length` bytes that `fetch` reads."""
    if length <= 16:
        return _up_to_16(fetch, length)
    if length <= 32:
        return _up_to_32(fetch, length)
    if length <= 64:
        return _up_to_64(fetch, length)
    return _longer(fetch, length)


def _rotated(word: Word, right: int) -> Word:
    return (word >> right) | ((word << (64 - right)) & _MASK)


def _folded(word: Word) -> Word:
    return word ^ (word >> 47)


def _joined(low: Word, high: Word, factor: Word) -> Word:
    mixed = _folded(((low ^ high) * factor) & _MASK)
    return (_folded(((high ^ mixed) * factor) & _MASK) * factor) & _MASK


def _up_to_16(fetch: Fetch, length: int) -> Word:
    factor = (_K2 + 2 * length) & _MASK
    if length >= 8:
        first = (fetch(0, 8) + _K2) & _MASK
        last = fetch(length - 8, 8)
        low = (_rotated(last, 37) * factor + first) & _MASK
        high = ((_rotated(first, 25) + last) * factor) & _MASK
        return _joined(low, high, factor)
    if length >= 4:
        return _joined((length + (fetch(0, 4) << 3)) & _MASK, fetch(length - 4, 4), factor)
    if length > 0:
        low = fetch(0, 1) + (fetch(length >> 1, 1) << 8)
        high = length + (fetch(length - 1, 1) << 2)
        return (_folded(((low * _K2) & _MASK) ^ ((high * _K0) & _MASK)) * _K2) & _MASK
    return _K2


def _ends(fetch: Fetch, length: int, first_factor: int, factor: int) -> tuple[Word, Word, Word]:
    """Return two words mixed from the first and last 16 bytes, and the first word alone, multiplied."""
    first = (fetch(0, 8) * first_factor) & _MASK
    second = fetch(8, 8)
    last = (fetch(length - 8, 8) * factor) & _MASK
    before_last = (fetch(length - 16, 8) * _K2) & _MASK
    low = (_rotated((first + second) & _MASK, 43) + _rotated(last, 30) + before_last) & _MASK
    high = (first + _rotated((second + _K2) & _MASK, 18) + last) & _MASK
    return low, high, first


def _up_to_32(fetch: Fetch, length: int) -> Word:
    factor = (_K2 + 2 * length) & _MASK
    low, high, _ = _ends(fetch, length, _K1, factor)
    return _joined(low, high, factor)


def _up_to_64(fetch: Fetch, length: int) -> Word:
    factor = (_K2 + 2 * length) & _MASK
    low, high, first = _ends(fetch, length, _K2, factor)
    high = _joined(low, high, factor)
    third = (fetch(16, 8) * factor) & _MASK
    fourth = fetch(24, 8)
    low = ((low + fetch(length - 32, 8)) * factor) & _MASK
    high = ((high + fetch(length - 24, 8)) * factor) & _MASK
    return _joined(
        (_rotated((third + fourth) & _MASK, 43) + _rotated(low, 30) + high) & _MASK,
        (third + _rotated((fourth + first) & _MASK, 18) + low) & _MASK,
        factor,
    )


def _weak(fetch: Fetch, at: int, low: Word, high: Word) -> tuple[Word, Word]:
    """Mix two seeds with the 32 bytes at `at`."""
    first, last = fetch(at, 8), fetch(at + 24, 8)
    low = (low + first) & _MASK
    high = _rotated((high + low + last) & _MASK, 21)
    total = (low + fetch(at + 8, 8) + fetch(at + 16, 8)) & _MASK
    high = (high + _rotated(total, 44) + low) & _MASK
    return (total + last) & _MASK, high


def _longer(fetch: Fetch, length: int) -> Word:
    x: Word = ((_SEED * _K2 & _MASK) + fetch(0, 8)) & _MASK
    y: Word = (_SEED * _K1 + 113) & _MASK
    z: Word = (_folded((y * _K2 + 113) & _MASK) * _K2) & _MASK
    v: tuple[Word, Word] = (0, 0)
    w: tuple[Word, Word] = (0, 0)

    def step(at: int, factor: Word, weight: int) -> None:
        # 64 bytes; the last step overlaps the one before, with another factor and a greater weight.
        nonlocal x, y, z, v, w
        x = (_rotated((x + y + v[0] + fetch(at + 8, 8)) & _MASK, 37) * factor) & _MASK
        y = (_rotated((y + v[1] + fetch(at + 48, 8)) & _MASK, 42) * factor) & _MASK
        x = x ^ ((w[1] * weight) & _MASK)
        y = (y + v[0] * weight + fetch(at + 40, 8)) & _MASK
        z = (_rotated((z + w[0]) & _MASK, 33) * factor) & _MASK
        v = _weak(fetch, at, (v[1] * factor) & _MASK, (x + w[0]) & _MASK)
        w = _weak(fetch, at + 32, (z + w[1]) & _MASK, (y + fetch(at + 16, 8)) & _MASK)
        x, z = z, x

    for at in range(0, (length - 1) // 64 * 64, 64):
        step(at, _K1, 1)
    factor = (_K1 + ((z & 0xFF) << 1)) & _MASK
    w = ((w[0] + ((length - 1) & 63)) & _MASK, w[1])
    v = ((v[0] + w[0]) & _MASK, v[1])
    w = ((w[0] + v[0]) & _MASK, w[1])
    step(length - 64, factor, 9)
    low = (_joined(v[0], w[0], factor) + _folded(y) * _K0 + z) & _MASK
    return _joined(low, (_joined(v[1], w[1], factor) + x) & _MASK, factor)
