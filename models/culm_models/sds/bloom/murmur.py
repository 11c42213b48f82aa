"""MurmurHash3 x86_32, seed 0, over words: one formula for an int and for a numpy array of uint32.

The package mmh3 hashes plain bytes. This module covers the other cases: code units above 255, as JavaScript's
peers hash ids that are not ASCII, and many ids at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Word: TypeAlias = Any
"""An int below 2^32, or an array of uint32: arithmetic wraps there anyway, and the masks change nothing."""

_MASK = 0xFFFFFFFF
_C1 = 0xCC9E2D51
_C2 = 0x1B873593


def _rotated(word: Word, bits: int) -> Word:
    return ((word << bits) & _MASK) | (word >> (32 - bits))


def _mixed(block: Word) -> Word:
    return (_rotated((block * _C1) & _MASK, 15) * _C2) & _MASK


def absorb(state: Word, blocks: Iterable[Word]) -> Word:
    """Return the state after whole blocks of four bytes, each a little-endian word. It starts at 0."""
    for block in blocks:
        state = (_rotated(state ^ _mixed(block), 13) * 5 + 0xE6546B64) & _MASK
    return state


def finish(state: Word, tail: Word, length: int) -> Word:
    """Return the unsigned hash of `length` bytes; `tail` is the last `length % 4` bytes, little-endian."""
    state = state ^ _mixed(tail) ^ length
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


def hash_units(units: Sequence[int]) -> int:
    """Return the unsigned hash of 16-bit units in place of bytes; their upper halves overlap."""
    whole = len(units) // 4 * 4
    blocks = (_joined(units[at : at + 4]) for at in range(0, whole, 4))
    hashed: int = finish(absorb(0, blocks), _joined(units[whole:]), len(units))
    return hashed


def _joined(units: Sequence[int]) -> int:
    word = 0
    for unit in reversed(units):
        word = ((word << 8) & _MASK) | unit
    return word
