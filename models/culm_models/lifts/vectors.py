"""Lifts of many items at once, with numpy: XXH64 and SipHash-2-4-128 over messages of exactly 48 bytes.

Imported only by packages that have numpy (streaming, connectors, benchmarks). Items are processed in pieces
that stay in the processor's cache; `xor64` and `add64` hash CBOR and are lifted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from culm_models.lifts.lift import ADD128, FIRST_SEED, ITEM_SIZE, SECOND_SEED, SIPHASH128, Lift

U64s: TypeAlias = NDArray[np.uint64]
Bytes2d: TypeAlias = NDArray[np.uint8]

_KEY_SIZE = 32
_PIECE = 16_384
_WORDS = ITEM_SIZE // 8
_MASK = 2**64 - 1


def lift_many(
    lift: Lift, keys: Bytes2d, log_ids: U64s, seq_nums: U64s, salt: bytes = b""
) -> NDArray[np.uint64]:
    """Return the lanes of n items, shape (n, lane_count): `keys` is (n, 32) bytes, the others n numbers."""
    assert len(salt) == lift.salt_bytes, f"{lift.name} takes a salt of {lift.salt_bytes} bytes"
    hash_words = _HASHES.get(lift.code)
    if hash_words is None:
        return _lift_each(lift, keys, log_ids, seq_nums, salt)
    lanes = np.empty((len(keys), lift.lane_count), np.uint64)
    for start in range(0, len(keys), _PIECE):
        piece = slice(start, start + _PIECE)
        words = np.empty((_WORDS, len(keys[piece])), np.uint64)
        words[:4] = np.ascontiguousarray(keys[piece]).view("<u8").T
        words[4] = log_ids[piece].astype(">u8").view("<u8")
        words[5] = seq_nums[piece].astype(">u8").view("<u8")
        for lane, hashed in enumerate(hash_words(words, salt)):
            lanes[piece, lane] = hashed
    return lanes


def _lift_each(lift: Lift, keys: Bytes2d, log_ids: U64s, seq_nums: U64s, salt: bytes) -> NDArray[np.uint64]:
    # Void, not bytes: numpy's bytes lose their trailing zeros.
    authors = np.ascontiguousarray(keys).view(f"V{_KEY_SIZE}").reshape(-1).tolist()
    items = zip(authors, log_ids.tolist(), seq_nums.tolist(), strict=True)
    lanes = (lane for item in items for lane in lift.hash_item(item, salt))
    return np.fromiter(lanes, np.uint64, len(keys) * lift.lane_count).reshape(-1, lift.lane_count)


def combine(lift: Lift, lanes: NDArray[np.uint64]) -> tuple[int, ...]:
    """Return the lanes of a set from those of its items, shape (n, lane_count)."""
    operation = np.bitwise_xor if lift.combine == "xor" else np.add
    return tuple(operation.reduce(lanes, axis=0, dtype=np.uint64).tolist())


def join_items(keys: Bytes2d, log_ids: U64s, seq_nums: U64s) -> Bytes2d:
    """Return the items as rows of 48 bytes: key, then log id and sequence number, both big-endian."""
    rows = np.empty((len(keys), ITEM_SIZE), np.uint8)
    rows[:, :_KEY_SIZE] = keys
    rows[:, 32:40] = log_ids.astype(">u8").view(np.uint8).reshape(-1, 8)
    rows[:, 40:48] = seq_nums.astype(">u8").view(np.uint8).reshape(-1, 8)
    return rows


def split_items(packed: bytes | memoryview | Bytes2d) -> tuple[Bytes2d, U64s, U64s]:
    """Return keys (n, 32), log ids and sequence numbers of concatenated items of 48 bytes each.

    The keys are a view of the argument. Raises `ValueError` if its size is not a multiple of 48.
    """
    rows = np.frombuffer(packed, np.uint8).reshape(-1, ITEM_SIZE)
    log_ids = np.ascontiguousarray(rows[:, 32:40]).view(">u8").ravel().astype(np.uint64)
    seq_nums = np.ascontiguousarray(rows[:, 40:48]).view(">u8").ravel().astype(np.uint64)
    return rows[:, :_KEY_SIZE], log_ids, seq_nums


def xxh64(words: NDArray[np.uint64], seed: int) -> U64s:
    """Return XXH64 of n messages of 48 bytes, given as 6 rows of n little-endian words."""
    prime_1, prime_2, prime_3, prime_4 = _PRIMES
    accumulators = [
        _round(np.uint64((seed + start) & _MASK) + words[index] * prime_2)
        for index, start in enumerate((int(prime_1) + int(prime_2), int(prime_2), 0, -int(prime_1)))
    ]
    hashed: U64s = np.zeros_like(words[0])
    for accumulator, turn in zip(accumulators, (1, 7, 12, 18), strict=True):
        hashed += _rotated(accumulator, turn)
    for accumulator in accumulators:
        hashed ^= _round(accumulator * prime_2)
        hashed *= prime_1
        hashed += prime_4
    hashed += np.uint64(ITEM_SIZE)
    for word in words[4:]:
        hashed ^= _round(word * prime_2)
        hashed = _rotated(hashed, 27)
        hashed *= prime_1
        hashed += prime_4
    hashed ^= hashed >> np.uint64(33)
    hashed *= prime_2
    hashed ^= hashed >> np.uint64(29)
    hashed *= prime_3
    hashed ^= hashed >> np.uint64(32)
    return hashed


_PRIMES: tuple[np.uint64, ...] = tuple(
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63)
)


def _round(accumulator: U64s) -> U64s:
    turned = _rotated(accumulator, 31)
    turned *= _PRIMES[0]
    return turned


def _rotated(values: U64s, turn: int) -> U64s:
    turned: U64s = values << np.uint64(turn)
    turned |= values >> np.uint64(64 - turn)
    return turned


def siphash128(words: NDArray[np.uint64], salt: bytes) -> tuple[U64s, U64s]:
    """Return SipHash-2-4-128 of n messages of 48 bytes, given as 6 rows of n little-endian words."""
    keys = (int.from_bytes(salt[:8], "little"), int.from_bytes(salt[8:], "little")) * 2
    state = [
        np.full(words.shape[1], key ^ start, np.uint64) for key, start in zip(keys, _SIP_STARTS, strict=True)
    ]
    length = np.full(words.shape[1], ITEM_SIZE << 56, np.uint64)
    for word in (*words, length):
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= np.uint64(0xEE)
    _sip_rounds(state, 4)
    first = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= np.uint64(0xDD)
    _sip_rounds(state, 4)
    return first, state[0] ^ state[1] ^ state[2] ^ state[3]


# "somepseudorandomlygeneratedbytes", its second word changed as the 128-bit variant requires.
_SIP_STARTS = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)


def _sip_rounds(state: list[U64s], count: int) -> None:
    for _ in range(count):
        _sip_half(state, 0, 1, 13, 32)
        _sip_half(state, 2, 3, 16, None)
        _sip_half(state, 0, 3, 21, None)
        _sip_half(state, 2, 1, 17, 32)


def _sip_half(state: list[U64s], left: int, right: int, turn: int, swap: int | None) -> None:
    state[left] += state[right]
    state[right] = _rotated(state[right], turn)
    state[right] ^= state[left]
    if swap is not None:
        state[left] = _rotated(state[left], swap)


def _add128(words: NDArray[np.uint64], _: bytes) -> Iterator[U64s]:
    yield xxh64(words, FIRST_SEED)
    yield xxh64(words, SECOND_SEED)


def _siphash128(words: NDArray[np.uint64], salt: bytes) -> Iterator[U64s]:
    yield from siphash128(words, salt)


_HASHES: Mapping[int, Callable[[NDArray[np.uint64], bytes], Iterator[U64s]]] = {
    ADD128.code: _add128,
    SIPHASH128.code: _siphash128,
}
