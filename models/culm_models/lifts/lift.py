"""An item of the sync range as the bytes that are hashed, and one way to lift items to fingerprints.

A lift has its lanes, how they combine, and its bytes on the wire.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from culm_models.lifts.errors import FingerprintLengthError
from culm_models.varu64 import MAX_VALUE

Item = tuple[bytes, int, int]
"""Public key (32 bytes), log id, sequence number."""

ITEM_SIZE = 48
_ITEM = struct.Struct(">32sQQ")
_KEY_SIZE = 32


def pack(item: Item) -> bytes:
    """The 48 bytes of an item: public key, log id and sequence number, both big-endian."""
    public_key, log_id, seq_num = item
    assert len(public_key) == _KEY_SIZE, "a public key has 32 bytes"
    return _ITEM.pack(public_key, log_id, seq_num)


def as_cbor(item: Item) -> bytes:
    """The CBOR array [public key in hexadecimal, log id, sequence number], as messages have it."""
    public_key, log_id, seq_num = item
    assert len(public_key) == _KEY_SIZE, "a public key has 32 bytes"
    return b"\x83\x78\x40" + public_key.hex().encode() + _unsigned(log_id) + _unsigned(seq_num)


def _unsigned(number: int) -> bytes:
    # By hand: through the strict door of the `cbor` package an item would cost five times the hash of it.
    if number < 24:
        return number.to_bytes(1, "big")
    for head, size in ((0x18, 1), (0x19, 2), (0x1A, 4)):
        if number < 1 << 8 * size:
            return bytes((head,)) + number.to_bytes(size, "big")
    assert number <= MAX_VALUE, "a number of 64 bits"
    return b"\x1b" + number.to_bytes(8, "big")


Lanes = tuple[int, ...]
"""One unsigned 64-bit number a lane."""

_MASK = 2**64 - 1
_LANE_SIZE = 8


@dataclass(frozen=True, slots=True)
class Lift:
    """A lift of the registry.

    `combine` says how the lanes of two sets become those of their union: added modulo 2^64, or XORed.
    `salt_bytes` is the size of the salt that every fingerprint of it carries, 0 for the lifts without one.
    """

    name: str
    code: int
    """How it is named on the wire, one byte."""
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
        """The size of a fingerprint's value, without what `prefix` gives."""
        return self.lane_count * _LANE_SIZE

    def lanes(self, item: Item, salt: bytes = b"") -> Lanes:
        """The lanes of one item. The salt has `salt_bytes` bytes."""
        assert len(salt) == self.salt_bytes, f"{self.name} takes a salt of {self.salt_bytes} bytes"
        return self.hash_item(item, salt)

    def total(self, many: Iterable[Lanes]) -> Lanes:
        """The lanes of a union of disjoint sets; those of nothing for none."""
        total = self.neutral
        if self.combine == "xor":
            for lanes in many:
                total = tuple(a ^ b for a, b in zip(total, lanes, strict=True))
        else:
            for lanes in many:
                total = tuple((a + b) & _MASK for a, b in zip(total, lanes, strict=True))
        return total

    def without(self, lanes: Lanes, removed: Lanes) -> Lanes:
        """The lanes of a set after a part of it was taken out."""
        if self.combine == "xor":
            return tuple(a ^ b for a, b in zip(lanes, removed, strict=True))
        return tuple((a - b) & _MASK for a, b in zip(lanes, removed, strict=True))

    def prefix(self, salt: bytes = b"") -> bytes:
        """What comes before the value on the wire: the code and the salt."""
        assert len(salt) == self.salt_bytes, f"{self.name} takes a salt of {self.salt_bytes} bytes"
        return bytes((self.code,)) + salt

    def value(self, lanes: Lanes) -> bytes:
        """The value on the wire: the lanes, each big-endian."""
        return struct.pack(f">{self.lane_count}Q", *lanes)

    def read_value(self, value: bytes) -> Lanes:
        """The lanes of a value. Raises FingerprintLengthError."""
        if len(value) != self.value_bytes:
            raise FingerprintLengthError(f"a value of {self.name} of {len(value)} bytes")
        return struct.unpack(f">{self.lane_count}Q", value)

    def fingerprint(self, items: Iterable[Item], salt: bytes = b"") -> bytes:
        """The fingerprint of these items as it goes on the wire, item by item."""
        lanes = self.total(self.lanes(item, salt) for item in items)
        return self.prefix(salt) + self.value(lanes)
