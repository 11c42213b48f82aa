"""Many ids at once, with numpy: their hash pairs, filters of them, and lookups in filters.

Imported only if numpy is installed. Ids of one length are hashed together, in pieces that fit the processor's
cache.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from culm_models.sds.bloom.farmhash import fingerprint_of
from culm_models.sds.bloom.layout import LAYOUTS, SECOND_SUFFIX, BloomShape, Layout, LayoutName, wrapped
from culm_models.sds.bloom.murmur import absorb, finish

Pairs: TypeAlias = NDArray[Any]
"""Hash pairs, shape (n, 2): uint32 in js and spec, uint64 in nim."""

_PIECE = 4_096
_SUFFIX = SECOND_SUFFIX.encode()


def hash_pairs(layout: LayoutName, message_ids: Sequence[str]) -> Pairs:
    """Return the hash pairs of n ids, in their order."""
    kind = LAYOUTS[layout]
    pairs = np.empty((len(message_ids), 2), np.uint32 if kind.pair_code == "I" else np.uint64)
    for start in range(0, len(message_ids), _PIECE):
        _hash_piece(kind, message_ids[start : start + _PIECE], pairs[start : start + _PIECE])
    return pairs


def _hash_piece(kind: Layout, ids: Sequence[str], pairs: Pairs) -> None:
    joined = "".join(ids)
    size = len(ids[0])
    if (
        joined.isascii()
        and len(joined) == size * len(ids)
        and all(len(message_id) == size for message_id in ids)
    ):
        _hash_rows(kind, joined.encode(), size, pairs)
        return
    by_size: dict[int, list[int]] = {}
    for index, message_id in enumerate(ids):
        if kind.name == "js" and not message_id.isascii():
            pairs[index] = kind.hash_pair(message_id)
        else:
            by_size.setdefault(len(message_id.encode()), []).append(index)
    for size, indexes in by_size.items():
        hash_pairs = np.empty((len(indexes), 2), pairs.dtype)
        _hash_rows(kind, b"".join(ids[index].encode() for index in indexes), size, hash_pairs)
        pairs[indexes] = hash_pairs


def _hash_rows(kind: Layout, data: bytes, size: int, pairs: Pairs) -> None:
    """Hash concatenated ids of equal length."""
    count = len(pairs)
    # Whole words behind the suffix, so that every read stays inside.
    rows = np.zeros((count, (size + len(_SUFFIX) + 15) // 8 * 8), np.uint8)
    rows[:, :size] = np.frombuffer(data, np.uint8).reshape(count, size)
    hashes: tuple[NDArray[Any], NDArray[Any]] = (
        _farm_rows(rows, size) if kind.pair_code == "Q" else _murmur_rows(rows, size)
    )
    for column, unsigned in enumerate(hashes):
        # The magnitude of the hash read with a sign.
        np.minimum(unsigned, -unsigned, out=pairs[:, column])


def _murmur_rows(rows: NDArray[np.uint8], size: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    whole = size // 4
    words = np.ascontiguousarray(rows.view("<u4").T)
    state = absorb(np.zeros(len(rows), np.uint32), words[:whole])
    first = finish(state, words[whole], size)
    rows[:, size : size + len(_SUFFIX)] = np.frombuffer(_SUFFIX, np.uint8)
    words = np.ascontiguousarray(rows[:, 4 * whole :].view("<u4").T)
    size += len(_SUFFIX)
    # The blocks before the suffix are the same: they are absorbed once for both hashes.
    more = size // 4 - whole
    return first, finish(absorb(state, words[:more]), words[more], size)


def _farm_rows(rows: NDArray[np.uint8], size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    first = _fingerprints(rows, size)
    rows[:, size : size + len(_SUFFIX)] = np.frombuffer(_SUFFIX, np.uint8)
    return first, _fingerprints(rows, size + len(_SUFFIX))


def _fingerprints(rows: NDArray[np.uint8], size: int) -> NDArray[np.uint64]:
    def fetch(offset: int, width: int) -> NDArray[np.uint64]:
        words = np.ascontiguousarray(rows[:, offset : offset + width]).view(f"<u{width}")
        return words[:, 0].astype(np.uint64)

    return np.broadcast_to(np.asarray(fingerprint_of(fetch, size), np.uint64), (len(rows),))


def _positions(hash_count: int, bit_count: int, pairs: Pairs) -> NDArray[np.int64]:
    """Return the positions of the bits that the ids set, shape (hash count, n)."""
    positions = np.empty((hash_count, len(pairs)), np.int64)
    positions[0] = pairs[:, 0] % pairs.dtype.type(bit_count)
    steps = (pairs[:, 1] % pairs.dtype.type(bit_count)).astype(np.int64)
    for index in range(1, hash_count):
        row = np.add(positions[index - 1], steps, out=positions[index])
        row -= bit_count * (row >= bit_count)
    return positions


def set_many(bits: bytearray, layout: Layout, shape: BloomShape, pairs: array[int]) -> None:
    """Insert ids into a filter of that shape; `pairs` has first and second hashes in alternation."""
    _insert(np.frombuffer(bits, np.uint8), layout, shape, _viewed(pairs))


def _viewed(pairs: array[int]) -> Pairs:
    return np.frombuffer(pairs, np.uint32 if pairs.typecode == "I" else np.uint64).reshape(-1, 2)


def covers(bits: bytes, others: bytes | bytearray) -> bool:
    """Whether every bit of `others` is set in `bits`, both whole 64-bit words."""
    lacking = np.frombuffer(others, np.uint64) & ~np.frombuffer(bits, np.uint64)
    return not lacking.any()


def set_bit_count(bits: bytes) -> int:
    """Return the number of set bits in whole 64-bit words."""
    return int(np.add.reduce(np.bitwise_count(np.frombuffer(bits, np.uint64)), dtype=np.int64))


def _insert(into: NDArray[np.uint8], layout: Layout, shape: BloomShape, pairs: Pairs) -> None:
    flags = np.zeros(8 * shape.byte_count, np.bool_)
    for start in range(0, len(pairs), _PIECE):
        flags[_positions(shape.hash_count, shape.bit_count, pairs[start : start + _PIECE])] = True
    packed = np.packbits(flags, bitorder="little")
    if layout.byte_flip:
        packed = packed.view(np.uint64).byteswap().view(np.uint8)
    into |= packed


def filter_value(layout: LayoutName, shape: BloomShape, pairs: Pairs) -> bytes:
    """Return a filter of these ids as the bytes of the message field."""
    kind = LAYOUTS[layout]
    bits = np.zeros(shape.byte_count, np.uint8)
    _insert(bits, kind, shape, pairs)
    before, after = wrapped(shape) if kind.contained else (b"", b"")
    return before + bits.tobytes() + after


def contains_many(layout: LayoutName, shape: BloomShape, bits: bytes, pairs: Pairs) -> NDArray[np.bool_]:
    """Return which ids may be in the filter with these bits (in profile nim: the words in its container)."""
    flip = LAYOUTS[layout].byte_flip
    return _contained(np.frombuffer(bits, np.uint8), flip, shape.hash_count, shape.bit_count, pairs)


def absent_of(bits: bytes, flip: int, hash_count: int, bit_count: int, pairs: array[int]) -> list[int]:
    """Return the positions of ids not in a filter; `pairs` has alternating first and second hashes."""
    contained = _contained(np.frombuffer(bits, np.uint8), flip, hash_count, bit_count, _viewed(pairs))
    positions: list[int] = np.flatnonzero(~contained).tolist()
    return positions


def _contained(
    octets: NDArray[np.uint8], flip: int, hash_count: int, bit_count: int, pairs: Pairs
) -> NDArray[np.bool_]:
    contained = np.ones(len(pairs), np.bool_)
    for start in range(0, len(pairs), _PIECE):
        positions = _positions(hash_count, bit_count, pairs[start : start + _PIECE])
        hit = octets[(positions >> 3) ^ flip] >> (positions & 7).astype(np.uint8) & 1
        contained[start : start + _PIECE] = hit.all(axis=0)
    return contained
