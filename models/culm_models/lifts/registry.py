"""The lifts that Culm knows, by name and by wire code.

| name | code | lanes | an item's lanes |
|---|---|---|---|
| xor64 | 1 | 1 | XXH64 of its CBOR array, as messages carry it; combined by XOR. Broken by 65 items of one's own choice |
| add64 | 2 | 1 | XXH3-64 of the same CBOR; added |
| add128 | 3 | 2 | XXH64 of its 48 bytes with two seeds: what Spark's `xxhash64(binary)` and `xxhash64(lit('culm'), binary)` give; added |
| siphash128 | 4 | 2 | SipHash-2-4 with 128 bits under a salt that is drawn anew for every session; added. For peers who choose their keys with bad intent: they cannot know the salt |
"""  # noqa: E501 (a table)

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import xxhash
from nacl.bindings import crypto_shorthash_siphashx24

from culm_models.lifts.errors import FingerprintLengthError, UnknownLiftError
from culm_models.lifts.lift import Item, Lanes, Lift, as_cbor, pack

# Spark hashes with this seed, and takes the hash of one argument as the seed of the next.
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
    """The lift of this name. Raises UnknownLiftError."""
    lift = _BY_NAME.get(name)
    if lift is None:
        raise UnknownLiftError(f"no lift is named {name!r}; there are {', '.join(_BY_NAME)}")
    return lift


def by_code(code: int) -> Lift:
    """The lift of this wire code. Raises UnknownLiftError."""
    lift = _BY_CODE.get(code)
    if lift is None:
        raise UnknownLiftError(f"no lift has the code {code}")
    return lift


class WireFingerprint(NamedTuple):
    """A fingerprint from the wire taken apart. That two are equal is evidence of equal sets, never proof."""

    lift: Lift
    salt: bytes
    value: bytes


def read_fingerprint(data: bytes) -> WireFingerprint:
    """Take a fingerprint from the wire apart. Raises UnknownLiftError, FingerprintLengthError."""
    if not data:
        raise FingerprintLengthError("a fingerprint of no bytes")
    lift = by_code(data[0])
    if len(data) != 1 + lift.salt_bytes + lift.value_bytes:
        raise FingerprintLengthError(f"a fingerprint of {lift.name} of {len(data)} bytes")
    end = 1 + lift.salt_bytes
    return WireFingerprint(lift, data[1:end], data[end:])
