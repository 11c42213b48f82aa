"""Items of the sync range as the bytes that are hashed, and lifts, which turn items into fingerprints.

A lift defines the lanes of an item, their combination, and its bytes on the wire.

| name | code | lanes | an item's lanes |
|---|---|---|---|
| xor64 | 1 | 1 | XXH64 of its CBOR array, as messages carry it; combined by XOR. Broken by 65 chosen items |
| add64 | 2 | 1 | XXH3-64 of the same CBOR; added |
| add128 | 3 | 2 | XXH64 of its 48 bytes with two seeds: the results of Spark's `xxhash64(binary)` and `xxhash64(lit('culm'), binary)`; added |
| siphash128 | 4 | 2 | SipHash-2-4 with 128 bits under a salt that is new in every session; added. Against peers that choose their keys maliciously: they cannot know the salt |
"""  # noqa: E501 (a table)

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import xxhash
from nacl.bindings import crypto_shorthash_siphashx24

from culm_models.errors import ModelError
from culm_models.varu64 import MAX_VALUE


class LiftError(ModelError, code="lift"):
    """A lift or a fingerprint that breaks a rule."""


class UnknownLiftError(LiftError, code="lift.unknown"):
    """A name or a wire code that is not in the registry."""


class FingerprintLengthError(LiftError, code="lift.length"):
    """A fingerprint whose length does not match its lift."""


Item = tuple[bytes, int, int]
"""Public key (32 bytes), log id, sequence number."""

ITEM_SIZE = 48
_ITEM = struct.Struct(">32sQQ")
_KEY_SIZE = 32


def pack(item: Item) -> bytes:
    """Return the 48 bytes of an item: public key, then log id and sequence number, both big-endian."""
    public_key, log_id, seq_num = item
    assert len(public_key) == _KEY_SIZE, "a public key has 32 bytes"
    return _ITEM.pack(public_key, log_id, seq_num)


def as_cbor(item: Item) -> bytes:
    """Return the CBOR array [public key in hexadecimal, log id, sequence number], as in messages."""
    public_key, log_id, seq_num = item
    assert len(public_key) == _KEY_SIZE, "a public key has 32 bytes"
    return b"\x83\x78\x40" + public_key.hex().encode() + _unsigned(log_id) + _unsigned(seq_num)


def _unsigned(number: int) -> bytes:
    # Written by hand: the `cbor` package would take five times as long as hashing the item.
    if number < 24:
        return number.to_bytes(1, "big")
    for head, size in ((0x18, 1), (0x19, 2), (0x1A, 4)):
        if number < 1 << 8 * size:
            return bytes((head,)) + number.to_bytes(size, "big")
    assert number <= MAX_VALUE, "a number of 64 bits"
    return b"\x1b" + number.to_bytes(8, "big")


Lanes = tuple[int, ...]
"""One unsigned 64-bit number for each lane."""

_MASK = 2**64 - 1
_LANE_SIZE = 8


@dataclass(frozen=True, slots=True)
class Lift:
    """A lift of the registry.

    `combine` is the operation that combines the lanes of two sets into those of their union: addition modulo
    2^64, or XOR. `salt_bytes` is the size of the salt in every fingerprint of the lift, 0 for lifts without a
    salt.
    """

    name: str
    code: int
    """The code of the lift on the wire, one byte."""
    lane_count: int
    combine: Literal["add", "xor"]
    salt_bytes: int
    hash_item: Callable[[Item, bytes], Lanes]

    @property
    def neutral(self) -> Lanes:
        """The lanes of the empty set."""
        return (0,) * self.lane_count

    @property
    def value_bytes(self) -> int:
        """The size of a fingerprint's value in bytes, without the bytes of `prefix`."""
        return self.lane_count * _LANE_SIZE

    def lanes(self, item: Item, salt: bytes = b"") -> Lanes:
        """Return the lanes of one item. The salt has `salt_bytes` bytes."""
        assert len(salt) == self.salt_bytes, f"{self.name} takes a salt of {self.salt_bytes} bytes"
        return self.hash_item(item, salt)

    def total(self, many: Iterable[Lanes]) -> Lanes:
        """Return the lanes of a union of disjoint sets; the neutral lanes for no sets."""
        total = self.neutral
        if self.combine == "xor":
            for lanes in many:
                total = tuple(a ^ b for a, b in zip(total, lanes, strict=True))
        else:
            for lanes in many:
                total = tuple((a + b) & _MASK for a, b in zip(total, lanes, strict=True))
        return total

    def without(self, lanes: Lanes, removed: Lanes) -> Lanes:
        """Return the lanes of a set after a part was removed."""
        if self.combine == "xor":
            return tuple(a ^ b for a, b in zip(lanes, removed, strict=True))
        return tuple((a - b) & _MASK for a, b in zip(lanes, removed, strict=True))

    def prefix(self, salt: bytes = b"") -> bytes:
        """Return the bytes before the value on the wire: the code and the salt."""
        assert len(salt) == self.salt_bytes, f"{self.name} takes a salt of {self.salt_bytes} bytes"
        return bytes((self.code,)) + salt

    def value(self, lanes: Lanes) -> bytes:
        """Return the value on the wire: the lanes, each big-endian."""
        return struct.pack(f">{self.lane_count}Q", *lanes)

    def read_value(self, value: bytes) -> Lanes:
        """Return the lanes of a value. Raises `FingerprintLengthError`."""
        if len(value) != self.value_bytes:
            raise FingerprintLengthError(f"a value of {self.name} of {len(value)} bytes")
        return struct.unpack(f">{self.lane_count}Q", value)

    def fingerprint(self, items: Iterable[Item], salt: bytes = b"") -> bytes:
        """Return the fingerprint of these items in its form on the wire, computed item by item."""
        lanes = self.total(self.lanes(item, salt) for item in items)
        return self.prefix(salt) + self.value(lanes)


# Spark hashes with this seed, and uses the hash of one argument as the seed of the next.
FIRST_SEED: Final = 42
SECOND_SEED: Final[int] = xxhash.xxh64_intdigest(b"culm", FIRST_SEED)
_SIPHASH = struct.Struct("<QQ")


def _xor64(item: Item, _: bytes) -> Lanes:
    return (xxhash.xxh64_intdigest(as_cbor(item)),)


def _add64(item: Item, _: bytes) -> Lanes:
    return (xxhash.xxh3_64_intdigest(as_cbor(item)),)


def _add128(item: Item, _: bytes) -> Lanes:
    packed = pack(item)
    return xxhash.xxh64_intdigest(packed, FIRST_SEED), xxhash.xxh64_intdigest(packed, SECOND_SEED)


def _siphash128(item: Item, salt: bytes) -> Lanes:
    return _SIPHASH.unpack(crypto_shorthash_siphashx24(pack(item), salt))


XOR64: Final = Lift("xor64", 1, 1, "xor", 0, _xor64)
ADD64: Final = Lift("add64", 2, 1, "add", 0, _add64)
ADD128: Final = Lift("add128", 3, 2, "add", 0, _add128)
SIPHASH128: Final = Lift("siphash128", 4, 2, "add", 16, _siphash128)

DEFAULT: Final = ADD128
LIFTS: Final[tuple[Lift, ...]] = (XOR64, ADD64, ADD128, SIPHASH128)

_BY_NAME: Mapping[str, Lift] = MappingProxyType({lift.name: lift for lift in LIFTS})
_BY_CODE: Mapping[int, Lift] = MappingProxyType({lift.code: lift for lift in LIFTS})


def by_name(name: str) -> Lift:
    """Return the lift with this name. Raises `UnknownLiftError`."""
    lift = _BY_NAME.get(name)
    if lift is None:
        raise UnknownLiftError(f"no lift is named {name!r}; there are {', '.join(_BY_NAME)}")
    return lift


def by_code(code: int) -> Lift:
    """Return the lift with this wire code. Raises `UnknownLiftError`."""
    lift = _BY_CODE.get(code)
    if lift is None:
        raise UnknownLiftError(f"no lift has the code {code}")
    return lift


class WireFingerprint(NamedTuple):
    """The parts of a fingerprint from the wire.

    Equal fingerprints are evidence of equal sets, never proof.
    """

    lift: Lift
    salt: bytes
    value: bytes


def read_fingerprint(data: bytes) -> WireFingerprint:
    """Split a fingerprint from the wire into its parts.

    Raises `UnknownLiftError`, `FingerprintLengthError`.
    """
    if not data:
        raise FingerprintLengthError("a fingerprint of no bytes")
    lift = by_code(data[0])
    if len(data) != 1 + lift.salt_bytes + lift.value_bytes:
        raise FingerprintLengthError(f"a fingerprint of {lift.name} of {len(data)} bytes")
    end = 1 + lift.salt_bytes
    return WireFingerprint(lift, data[1:end], data[end:])
